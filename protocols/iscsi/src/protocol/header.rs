//! The basic header segment of every PDU (RFC 7143 section 11.2.1): 48 bytes.

/// Bytes of a basic header segment.
pub const HEADER_BYTES: usize = 48;
/// The reserved tag "none" (initiator task tag and target transfer tag).
pub const TAG_NONE: u32 = 0xffff_ffff;
/// Largest value of the 24-bit DataSegmentLength.
pub const DATA_SEGMENT_BYTES_MAX: usize = 0xff_ffff;
/// Largest total of additional header segments: an 8-bit count of words.
pub const AHS_BYTES_MAX: usize = 255 * 4;

/// Operation codes of an initiator.
pub mod initiator_opcode {
    /// NOP-Out.
    pub const NOP_OUT: u8 = 0x00;
    /// SCSI Command.
    pub const SCSI_COMMAND: u8 = 0x01;
    /// Task Management Function Request.
    pub const TASK_MANAGEMENT: u8 = 0x02;
    /// Login Request.
    pub const LOGIN: u8 = 0x03;
    /// Text Request.
    pub const TEXT: u8 = 0x04;
    /// SCSI Data-Out.
    pub const DATA_OUT: u8 = 0x05;
    /// Logout Request.
    pub const LOGOUT: u8 = 0x06;
    /// SNACK Request.
    pub const SNACK: u8 = 0x10;
}

/// Operation codes of a target.
pub mod target_opcode {
    /// NOP-In.
    pub const NOP_IN: u8 = 0x20;
    /// SCSI Response.
    pub const SCSI_RESPONSE: u8 = 0x21;
    /// Task Management Function Response.
    pub const TASK_MANAGEMENT: u8 = 0x22;
    /// Login Response.
    pub const LOGIN: u8 = 0x23;
    /// Text Response.
    pub const TEXT: u8 = 0x24;
    /// SCSI Data-In.
    pub const DATA_IN: u8 = 0x25;
    /// Logout Response.
    pub const LOGOUT: u8 = 0x26;
    /// Ready To Transfer.
    pub const R2T: u8 = 0x31;
    /// Asynchronous Message.
    pub const ASYNC: u8 = 0x32;
    /// Reject.
    pub const REJECT: u8 = 0x3f;
}

/// A basic header segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header(pub [u8; HEADER_BYTES]);

impl Header {
    /// Creates a header of `opcode` with all other bytes zero.
    pub const fn new(opcode: u8) -> Self {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = opcode;
        Self(bytes)
    }

    /// The operation code without the immediate bit.
    pub const fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// The I bit: deliver immediately, outside the order of CmdSN.
    pub const fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// Byte 1: the F bit and flags that depend on the operation code.
    pub const fn flags(&self) -> u8 {
        self.0[1]
    }

    /// The F (final) bit.
    pub const fn is_final(&self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// Length in bytes of all additional header segments.
    pub const fn ahs_bytes(&self) -> usize {
        self.0[4] as usize * 4
    }

    /// DataSegmentLength in bytes, without padding.
    pub const fn data_bytes(&self) -> usize {
        (self.0[5] as usize) << 16 | (self.0[6] as usize) << 8 | self.0[7] as usize
    }

    /// Sets DataSegmentLength.
    pub fn set_data_bytes(&mut self, count: usize) {
        debug_assert!(count <= DATA_SEGMENT_BYTES_MAX);
        self.0[5..8].copy_from_slice(&(count as u32).to_be_bytes()[1..]);
    }

    /// Returns the big-endian 32-bit value at byte `at`.
    pub const fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// Sets the big-endian 32-bit value at byte `at`.
    pub fn set_word(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Returns the big-endian 16-bit value at byte `at`.
    pub const fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// Sets the big-endian 16-bit value at byte `at`.
    pub fn set_half(&mut self, at: usize, value: u16) {
        self.0[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Bytes 8 to 15: the logical unit number if the operation has one.
    pub fn lun(&self) -> [u8; 8] {
        let mut lun = [0; 8];
        lun.copy_from_slice(&self.0[8..16]);
        lun
    }

    /// The initiator task tag.
    pub const fn task_tag(&self) -> u32 {
        self.word(16)
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Header {{ opcode: {:#04x}, flags: {:#04x}, task_tag: {:#x}, data_bytes: {} }}",
            self.opcode(),
            self.flags(),
            self.task_tag(),
            self.data_bytes()
        )
    }
}

/// Returns the zero bytes that pad `count` to a multiple of four.
pub const fn padding(count: usize) -> usize {
    count.wrapping_neg() & 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_fields_are_at_the_standard_offsets() {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&[0x41, 0x81, 0, 0, 2, 0x01, 0x02, 0x03]);
        bytes[16..20].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        let header = Header(bytes);
        assert_eq!(header.opcode(), initiator_opcode::SCSI_COMMAND);
        assert!(header.is_immediate() && header.is_final());
        assert_eq!(header.ahs_bytes(), 8);
        assert_eq!(header.data_bytes(), 0x01_02_03);
        assert_eq!(header.task_tag(), 0xdead_beef);
    }

    #[test]
    fn segments_are_padded_to_four_bytes() {
        assert_eq!([0, 1, 2, 3, 4].map(padding), [0, 3, 2, 1, 0]);
    }
}
