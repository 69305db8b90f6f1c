//! Mode pages (SPC-4, section 7.5; SBC-4, section 6.5): MODE SENSE and MODE SELECT.

mod pages;
mod select;

use crate::command::{Outcome, Stop};
use crate::handlers::primary::cut;
use crate::state::Parameters;

use super::Context;

pub(crate) use select::select;

/// The long (10) or short (6) format of the parameter header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
}

impl Form {
    /// Returns the format of a command: MODE SENSE (6) is 1Ah, MODE SELECT (6) is 15h.
    fn of(opcode: u8) -> Self {
        if opcode < 0x20 {
            Self::Short
        } else {
            Self::Long
        }
    }

    fn header_bytes(self) -> usize {
        match self {
            Self::Short => 4,
            Self::Long => 8,
        }
    }
}

/// The PC field: the requested values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Current,
    Changeable,
    Default,
    Saved,
}

/// MODE SENSE (6) and (10).
pub(crate) fn sense(context: &Context<'_>) -> Result<Outcome, Stop> {
    const DISABLE_BLOCK_DESCRIPTORS: u8 = 0x08;
    const LONG_LBA_ACCEPTED: u8 = 0x10;
    let cdb = &context.command.cdb;
    let form = Form::of(cdb.opcode());
    let values = match cdb.byte(2) >> 6 {
        0 => Values::Current,
        1 => Values::Changeable,
        2 => Values::Default,
        _ => Values::Saved,
    };
    let current = *context.unit.state.parameters();
    let initial = Parameters::initial(context.unit.config.write_cache);
    let shown = match values {
        Values::Default => initial,
        Values::Saved => context.unit.state.restored(&context.unit.config),
        Values::Current | Values::Changeable => current,
    };
    let code = cdb.byte(2) & 0x3f;
    let body = pages::select(code, cdb.byte(3), &shown, values == Values::Changeable)?;
    let wants_descriptor = cdb.byte(1) & DISABLE_BLOCK_DESCRIPTORS == 0;
    let long_lba = form == Form::Long && cdb.byte(1) & LONG_LBA_ACCEPTED != 0;
    let descriptor = if wants_descriptor {
        block_descriptor(context, long_lba)
    } else {
        Vec::new()
    };
    let data = with_header(context, form, long_lba, &descriptor, &body);
    let allocation = match form {
        Form::Short => u32::from(cdb.byte(4)),
        Form::Long => u32::from(cdb.be16(7)),
    };
    Ok(Outcome::data(cut(data, allocation)))
}

fn with_header(
    context: &Context<'_>,
    form: Form,
    long_lba: bool,
    descriptor: &[u8],
    body: &[u8],
) -> Vec<u8> {
    const WRITE_PROTECT: u8 = 0x80;
    const DPO_AND_FUA: u8 = 0x10;
    let mut device_specific = DPO_AND_FUA;
    if context.unit.write_refusal(&context.geometry()).is_some() {
        device_specific |= WRITE_PROTECT;
    }
    let rest = descriptor.len() + body.len();
    let mut data = match form {
        Form::Short => {
            let length = (3 + rest) as u8;
            vec![length, 0, device_specific, descriptor.len() as u8]
        }
        Form::Long => {
            let [high, low] = ((6 + rest) as u16).to_be_bytes();
            let [d_high, d_low] = (descriptor.len() as u16).to_be_bytes();
            let long = u8::from(long_lba && !descriptor.is_empty());
            vec![high, low, 0, device_specific, long, 0, d_high, d_low]
        }
    };
    data.extend(descriptor);
    data.extend(body);
    data
}

/// The block descriptor of direct access devices (SBC-4, section 6.5.2).
fn block_descriptor(context: &Context<'_>, long_lba: bool) -> Vec<u8> {
    let geometry = context.geometry();
    let blocks = geometry.size / u64::from(geometry.logical_block);
    let mut descriptor = Vec::with_capacity(16);
    if long_lba {
        descriptor.extend(blocks.to_be_bytes());
        descriptor.extend([0; 4]);
    } else {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        descriptor.extend(blocks.to_be_bytes());
    }
    descriptor.extend(geometry.logical_block.to_be_bytes());
    descriptor
}
