//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4,
//! sections 6.35 and 6.36).

use super::{ACTION_BITS, Row, TABLE, rows_of};
use crate::command::Cdb;
use crate::sense::Sense;

/// Bytes of a command timeouts descriptor, without its length field.
const TIMEOUTS_LENGTH: u16 = 0x0a;

/// Returns the parameter data for the reporting options of `cdb`, not yet truncated.
pub(crate) fn supported_opcodes(cdb: &Cdb, thin: bool) -> Result<Vec<u8>, Sense> {
    let with_timeouts = cdb.byte(2) & 0x80 != 0;
    let opcode = cdb.byte(3);
    let action = cdb.be16(4);
    let rows = rows_of(opcode);
    let has_actions = rows.first().is_some_and(|row| row.action.is_some());
    let with_action = || {
        rows.iter()
            .find(|row| row.action.map(u16::from) == Some(action))
    };
    let supported = |row: Option<&'static Row>| row.filter(|row| !row.thin_only || thin);
    match cdb.byte(2) & 0x07 {
        0 => Ok(all(with_timeouts, thin)),
        1 if has_actions => Err(Sense::invalid_cdb(2, Some(2))),
        1 => Ok(one(supported(rows.first()), with_timeouts)),
        2 if !has_actions && !rows.is_empty() => Err(Sense::invalid_cdb(2, Some(2))),
        2 => Ok(one(supported(with_action()), with_timeouts)),
        3 if has_actions => Ok(one(supported(with_action()), with_timeouts)),
        3 if action == 0 => Ok(one(supported(rows.first()), with_timeouts)),
        3 => Ok(one(None, with_timeouts)),
        _ => Err(Sense::invalid_cdb(2, Some(2))),
    }
}

fn push_timeouts(data: &mut Vec<u8>) {
    data.extend(TIMEOUTS_LENGTH.to_be_bytes());
    // Zero means that no time is specified.
    data.extend([0; TIMEOUTS_LENGTH as usize]);
}

fn all(with_timeouts: bool, thin: bool) -> Vec<u8> {
    let mut data = vec![0; 4];
    for row in TABLE.iter().filter(|row| !row.thin_only || thin) {
        let mut flags = 0;
        if with_timeouts {
            flags |= 0x02;
        }
        if row.action.is_some() {
            flags |= 0x01;
        }
        let [high, low] = (row.usage.len() as u16).to_be_bytes();
        data.extend([
            row.opcode,
            0,
            0,
            row.action.unwrap_or(0),
            0,
            flags,
            high,
            low,
        ]);
        if with_timeouts {
            push_timeouts(&mut data);
        }
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

fn one(row: Option<&Row>, with_timeouts: bool) -> Vec<u8> {
    /// SUPPORT: 001b not supported, 011b supported according to the standard.
    const NOT_SUPPORTED: u8 = 0x01;
    const SUPPORTED: u8 = 0x03;
    let Some(row) = row else {
        return vec![0, NOT_SUPPORTED, 0, 0];
    };
    let timeouts_present = if with_timeouts { 0x80 } else { 0 };
    let [high, low] = (row.usage.len() as u16).to_be_bytes();
    let mut data = vec![0, timeouts_present | SUPPORTED, high, low];
    data.extend(row.usage);
    if let Some(action) = row.action {
        data[5] = data[5] & !ACTION_BITS | action;
    }
    if with_timeouts {
        push_timeouts(&mut data);
    }
    data
}

/// Returns the parameter data, with or without REPD: abort task, abort task set, clear task set,
/// logical unit reset, target reset. No ACA, no query functions, no I_T nexus reset.
pub(crate) fn supported_task_management(extended: bool) -> Vec<u8> {
    const SUPPORTED: u8 = 0x80 | 0x40 | 0x10 | 0x08 | 0x02;
    if extended {
        let mut data = vec![0; 16];
        data[0] = SUPPORTED;
        data[3] = 0x0c;
        data
    } else {
        vec![SUPPORTED, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(options: u8, opcode: u8, action: u8) -> Result<Vec<u8>, Sense> {
        let cdb = [0xa3, 0x0c, options, opcode, 0, action, 0, 0, 255, 255, 0, 0];
        supported_opcodes(&Cdb::new(&cdb), true)
    }

    #[test]
    fn one_command_shows_its_usage_map() {
        assert_eq!(
            ask(1, 0x28, 0).unwrap(),
            [
                0, 3, 0, 10, 0x28, 0x18, 255, 255, 255, 255, 0x3f, 255, 255, 4
            ]
        );
        let read_capacity = ask(2, 0x9e, 0x10).unwrap();
        assert_eq!(&read_capacity[..6], [0, 3, 0, 16, 0x9e, 0x10]);
    }

    #[test]
    fn report_options_that_mismatch_the_opcode_are_refused() {
        assert!(ask(1, 0x9e, 0).is_err());
        assert!(ask(2, 0x28, 0).is_err());
        assert!(ask(4, 0x28, 0).is_err());
        assert_eq!(ask(1, 0x04, 0).unwrap(), [0, 1, 0, 0]);
        assert_eq!(ask(3, 0x9e, 0x1f).unwrap(), [0, 1, 0, 0]);
    }

    #[test]
    fn timeout_descriptors_are_returned_on_request() {
        let plain = ask(0, 0, 0).unwrap();
        let timed = ask(0x80, 0, 0).unwrap();
        assert_eq!(plain.len(), 4 + TABLE.len() * 8);
        assert_eq!(timed.len(), 4 + TABLE.len() * 20);
        assert_eq!(timed[9] & 2, 2);
        assert_eq!(timed[12..14], [0, 10]);
    }
}
