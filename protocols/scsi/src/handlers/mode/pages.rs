//! The bytes of the mode pages, and their changeable bits.

use crate::sense::Sense;
use crate::state::Parameters;

/// Request for all pages or all subpages.
const ALL: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;
/// SPF, in the first byte of a page with a subpage code.
const SUBPAGE_FORMAT: u8 = 0x40;
/// PS, in the same byte.
const PARAMETERS_SAVEABLE: u8 = 0x80;

const WCE: u8 = 0x04;
const D_SENSE: u8 = 0x04;
const SWP: u8 = 0x08;

/// A kind of mode page.
struct Page {
    code: u8,
    subpage: u8,
    /// Its bytes, including the header, and its changeable bits.
    bytes: fn(&Parameters) -> Vec<u8>,
    changeable: fn(&mut [u8]),
    /// Whether MODE SELECT can save it (PS).
    saveable: bool,
}

fn nothing(_: &mut [u8]) {}

/// In the order of "all pages".
static PAGES: [Page; 5] = [
    Page {
        code: 0x01,
        subpage: 0,
        bytes: error_recovery,
        changeable: nothing,
        saveable: false,
    },
    Page {
        code: 0x08,
        subpage: 0,
        bytes: caching,
        changeable: |page| page[2] = WCE,
        saveable: true,
    },
    Page {
        code: 0x0a,
        subpage: 0,
        bytes: control,
        changeable: |page| {
            page[2] = D_SENSE;
            page[4] = SWP;
        },
        saveable: false,
    },
    Page {
        code: 0x0a,
        subpage: 1,
        bytes: control_extension,
        changeable: nothing,
        saveable: false,
    },
    Page {
        code: 0x1c,
        subpage: 0,
        bytes: informational_exceptions,
        changeable: nothing,
        saveable: false,
    },
];

/// Read-write error recovery (AWRE and ARRE): handled by the engine.
fn error_recovery(_: &Parameters) -> Vec<u8> {
    let mut page = vec![0; 12];
    page[0] = 0x01;
    page[1] = 10;
    page[2] = 0xc0;
    page
}

fn caching(parameters: &Parameters) -> Vec<u8> {
    let mut page = vec![0; 20];
    page[0] = 0x08;
    page[1] = 18;
    page[2] = if parameters.write_cache { WCE } else { 0 };
    page
}

fn control(parameters: &Parameters) -> Vec<u8> {
    const GLTSD: u8 = 0x02;
    const UNRESTRICTED_REORDERING: u8 = 0x10;
    let mut page = vec![0; 12];
    page[0] = 0x0a;
    page[1] = 10;
    page[2] = GLTSD;
    if parameters.descriptor_sense {
        page[2] |= D_SENSE;
    }
    page[3] = UNRESTRICTED_REORDERING;
    page[4] = if parameters.write_protect { SWP } else { 0 };
    // BUSY TIMEOUT PERIOD: no limit.
    page[8] = 0xff;
    page[9] = 0xff;
    page
}

/// Control extension: MAXIMUM SENSE DATA LENGTH zero means 252, nothing else is used.
fn control_extension(_: &Parameters) -> Vec<u8> {
    let mut page = vec![0; 32];
    page[0] = SUBPAGE_FORMAT | 0x0a;
    page[1] = 0x01;
    page[3] = 28;
    page
}

/// Informational exceptions: not reported (DEXCPT).
fn informational_exceptions(_: &Parameters) -> Vec<u8> {
    let mut page = vec![0; 12];
    page[0] = 0x1c;
    page[1] = 10;
    page[2] = 0x08;
    page
}

impl Page {
    fn header_bytes(&self) -> usize {
        if self.subpage == 0 { 2 } else { 4 }
    }

    fn changeable_mask(&self, parameters: &Parameters) -> Vec<u8> {
        let mut page = (self.bytes)(parameters);
        page[self.header_bytes()..].fill(0);
        (self.changeable)(&mut page);
        page
    }
}

/// Returns the pages that a MODE SENSE requests, concatenated.
pub(super) fn select(
    code: u8,
    subpage: u8,
    parameters: &Parameters,
    changeable: bool,
) -> Result<Vec<u8>, Sense> {
    let wanted = PAGES.iter().filter(|page| {
        (code == ALL || code == page.code) && (subpage == ALL_SUBPAGES || subpage == page.subpage)
    });
    let mut bytes = Vec::new();
    for page in wanted {
        let first = bytes.len();
        bytes.extend(if changeable {
            page.changeable_mask(parameters)
        } else {
            (page.bytes)(parameters)
        });
        if page.saveable {
            bytes[first] |= PARAMETERS_SAVEABLE;
        }
    }
    if bytes.is_empty() {
        let known = code == ALL || PAGES.iter().any(|page| page.code == code);
        return Err(if known {
            Sense::invalid_cdb(3, None)
        } else {
            Sense::invalid_cdb(2, Some(5))
        });
    }
    Ok(bytes)
}

/// Applies the first page of `bytes`, which starts at byte `at` of the parameter list, to
/// `parameters`. Returns the page's length.
pub(super) fn accept(bytes: &[u8], at: usize, parameters: &mut Parameters) -> Result<usize, Sense> {
    const PAGE_CODE: u8 = 0x3f;
    let wrong = |offset: usize, bit| Sense::invalid_parameter((at + offset) as u16, bit);
    let first = *bytes.first().ok_or(wrong(0, None))?;
    let subpage = match first & SUBPAGE_FORMAT {
        0 => 0,
        _ => *bytes.get(1).ok_or(wrong(1, None))?,
    };
    let page = PAGES
        .iter()
        .find(|page| page.code == first & PAGE_CODE && page.subpage == subpage)
        .ok_or(wrong(0, Some(5)))?;
    let current = (page.bytes)(parameters);
    let header = page.header_bytes();
    let given = bytes
        .get(..current.len())
        .ok_or(Sense::illegal(crate::Asc::PARAMETER_LIST_LENGTH_ERROR))?;
    if given[1..header] != current[1..header] {
        return Err(wrong(1, None));
    }
    let mask = page.changeable_mask(parameters);
    for offset in header..current.len() {
        let changed = (given[offset] ^ current[offset]) & !mask[offset];
        if changed != 0 {
            return Err(wrong(offset, Some(7 - changed.leading_zeros() as u8)));
        }
    }
    match (page.code, page.subpage) {
        (0x08, 0) => parameters.write_cache = given[2] & WCE != 0,
        (0x0a, 0) => {
            parameters.descriptor_sense = given[2] & D_SENSE != 0;
            parameters.write_protect = given[4] & SWP != 0;
        }
        _ => {}
    }
    Ok(current.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: Parameters = Parameters {
        write_cache: true,
        write_protect: false,
        descriptor_sense: false,
    };

    #[test]
    fn only_wce_swp_and_d_sense_are_changeable() {
        assert_eq!(
            select(0x08, 0, &INITIAL, true).unwrap()[..4],
            [0x88, 18, 4, 0]
        );
        assert_eq!(
            select(0x0a, 0, &INITIAL, true).unwrap(),
            [0x0a, 10, 4, 0, 8, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn changed_fixed_bit_is_refused_with_a_field_pointer() {
        let mut page = control(&INITIAL);
        page[5] = 0x40;
        let mut parameters = INITIAL;
        assert_eq!(
            accept(&page, 4, &mut parameters),
            Err(Sense::invalid_parameter(9, Some(6)))
        );
        page[5] = 0;
        page[4] = SWP;
        assert_eq!(accept(&page, 4, &mut parameters), Ok(12));
        assert!(parameters.write_protect);
    }

    #[test]
    fn all_pages_and_subpages_are_returned_in_order() {
        let plain = select(ALL, 0, &INITIAL, false).unwrap();
        assert_eq!(plain.len(), 12 + 20 + 12 + 12);
        let all = select(ALL, ALL_SUBPAGES, &INITIAL, false).unwrap();
        assert_eq!(all.len(), plain.len() + 32);
        assert_eq!(
            select(0x3e, 0, &INITIAL, false),
            Err(Sense::invalid_cdb(2, Some(5)))
        );
    }
}
