//! Sense data (SPC-4, section 4.5) in fixed or descriptor format.

/// Sense keys (SPC-4, table 48).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SenseKey {
    /// Nothing to report.
    NoSense = 0x0,
    /// The logical unit cannot be accessed now.
    NotReady = 0x2,
    /// The data cannot be read or written.
    MediumError = 0x3,
    /// The engine failed for another reason.
    HardwareError = 0x4,
    /// The command or its parameters are wrong.
    IllegalRequest = 0x5,
    /// An event that the initiator must be informed of.
    UnitAttention = 0x6,
    /// Writing is not permitted, or not possible without space.
    DataProtect = 0x7,
    /// A third-party copy stopped half-way.
    CopyAborted = 0xa,
    /// The command was aborted.
    AbortedCommand = 0xb,
    /// Compared data differs.
    Miscompare = 0xe,
}

/// An additional sense code and its qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asc(pub u8, pub u8);

/// Additional sense codes (SPC-4, annex F) under their standard names.
#[allow(missing_docs)]
impl Asc {
    pub const NO_ADDITIONAL_SENSE: Self = Self(0x00, 0x00);
    pub const LOGICAL_UNIT_NOT_READY_MANUAL_INTERVENTION_REQUIRED: Self = Self(0x04, 0x03);
    pub const LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY: Self = Self(0x04, 0x01);
    pub const LOGICAL_UNIT_COMMUNICATION_FAILURE: Self = Self(0x08, 0x00);
    pub const INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT: Self = Self(0x0e, 0x03);
    pub const UNREACHABLE_COPY_TARGET: Self = Self(0x08, 0x04);
    pub const COPY_TARGET_DEVICE_NOT_REACHABLE: Self = Self(0x0d, 0x02);
    pub const UNRECOVERED_READ_ERROR: Self = Self(0x11, 0x00);
    pub const PARAMETER_LIST_LENGTH_ERROR: Self = Self(0x1a, 0x00);
    pub const MISCOMPARE_DURING_VERIFY_OPERATION: Self = Self(0x1d, 0x00);
    pub const INVALID_COMMAND_OPERATION_CODE: Self = Self(0x20, 0x00);
    pub const LBA_OUT_OF_RANGE: Self = Self(0x21, 0x00);
    pub const INVALID_FIELD_IN_CDB: Self = Self(0x24, 0x00);
    pub const LOGICAL_UNIT_NOT_SUPPORTED: Self = Self(0x25, 0x00);
    pub const INVALID_FIELD_IN_PARAMETER_LIST: Self = Self(0x26, 0x00);
    pub const INVALID_RELEASE_OF_PERSISTENT_RESERVATION: Self = Self(0x26, 0x04);
    pub const TOO_MANY_TARGET_DESCRIPTORS: Self = Self(0x26, 0x06);
    pub const UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE: Self = Self(0x26, 0x07);
    pub const TOO_MANY_SEGMENT_DESCRIPTORS: Self = Self(0x26, 0x08);
    pub const UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE: Self = Self(0x26, 0x09);
    pub const WRITE_PROTECTED: Self = Self(0x27, 0x00);
    pub const HARDWARE_WRITE_PROTECTED: Self = Self(0x27, 0x01);
    pub const LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED: Self = Self(0x27, 0x02);
    pub const SPACE_ALLOCATION_FAILED_WRITE_PROTECT: Self = Self(0x27, 0x07);
    pub const NOT_READY_TO_READY_CHANGE_MEDIUM_MAY_HAVE_CHANGED: Self = Self(0x28, 0x00);
    pub const POWER_ON_OR_RESET_OCCURRED: Self = Self(0x29, 0x00);
    pub const I_T_NEXUS_LOSS_OCCURRED: Self = Self(0x29, 0x07);
    pub const MODE_PARAMETERS_CHANGED: Self = Self(0x2a, 0x01);
    pub const RESERVATIONS_PREEMPTED: Self = Self(0x2a, 0x03);
    pub const RESERVATIONS_RELEASED: Self = Self(0x2a, 0x04);
    pub const REGISTRATIONS_PREEMPTED: Self = Self(0x2a, 0x05);
    pub const CAPACITY_DATA_HAS_CHANGED: Self = Self(0x2a, 0x09);
    pub const COMMANDS_CLEARED_BY_ANOTHER_INITIATOR: Self = Self(0x2f, 0x00);
    pub const SAVING_PARAMETERS_NOT_SUPPORTED: Self = Self(0x39, 0x00);
    pub const INQUIRY_DATA_HAS_CHANGED: Self = Self(0x3f, 0x03);
    pub const REPORTED_LUNS_DATA_HAS_CHANGED: Self = Self(0x3f, 0x0e);
    pub const INTERNAL_TARGET_FAILURE: Self = Self(0x44, 0x00);
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: Self = Self(0x55, 0x04);
}

/// The position of the invalid bits (SPC-4, section 4.5.2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPointer {
    /// Whether `byte` is an index in the CDB, otherwise in the parameter list.
    pub in_cdb: bool,
    /// Index of the first invalid byte.
    pub byte: u16,
    /// Its most significant invalid bit, if a single field is invalid.
    pub bit: Option<u8>,
}

/// The sense format for an initiator (control mode page, D_SENSE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SenseFormat {
    /// 18 bytes, response code 70h.
    #[default]
    Fixed,
    /// A header and descriptors, response code 72h.
    Descriptor,
}

/// Decoded sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: SenseKey,
    /// The additional sense code.
    pub asc: Asc,
    /// The INFORMATION field, such as the offset of a miscompare.
    pub information: Option<u64>,
    /// The invalid field.
    pub field: Option<FieldPointer>,
}

/// Bytes of fixed format sense data.
const FIXED_BYTES: usize = 18;

impl Sense {
    /// Creates sense data with only a key and a code.
    pub const fn new(key: SenseKey, asc: Asc) -> Self {
        Self {
            key,
            asc,
            information: None,
            field: None,
        }
    }

    /// Creates ILLEGAL REQUEST with a code.
    pub const fn illegal(asc: Asc) -> Self {
        Self::new(SenseKey::IllegalRequest, asc)
    }

    /// Creates the error for a CDB field: its first byte and most significant invalid bit.
    pub const fn invalid_cdb(byte: u16, bit: Option<u8>) -> Self {
        let mut sense = Self::illegal(Asc::INVALID_FIELD_IN_CDB);
        sense.field = Some(FieldPointer {
            in_cdb: true,
            byte,
            bit,
        });
        sense
    }

    /// Creates the error for a field of the parameter list.
    pub const fn invalid_parameter(byte: u16, bit: Option<u8>) -> Self {
        let mut sense = Self::illegal(Asc::INVALID_FIELD_IN_PARAMETER_LIST);
        sense.field = Some(FieldPointer {
            in_cdb: false,
            byte,
            bit,
        });
        sense
    }

    /// The data is not accessible yet. Initiators wait and retry for minutes, while any other sense
    /// code would cause an immediate error.
    pub const fn becoming_ready() -> Self {
        Self::new(
            SenseKey::NotReady,
            Asc::LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY,
        )
    }

    /// Creates a unit attention condition.
    pub const fn attention(asc: Asc) -> Self {
        Self::new(SenseKey::UnitAttention, asc)
    }

    /// Adds an INFORMATION field.
    pub const fn with_information(mut self, information: u64) -> Self {
        self.information = Some(information);
        self
    }

    /// Returns the encoded bytes.
    pub fn encode(&self, format: SenseFormat) -> Vec<u8> {
        match format {
            SenseFormat::Fixed => self.encode_fixed(),
            SenseFormat::Descriptor => self.encode_descriptors(),
        }
    }

    fn encode_fixed(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_BYTES];
        bytes[0] = 0x70;
        bytes[2] = self.key as u8;
        // A value that does not fit is omitted, and VALID remains clear.
        if let Some(Ok(information)) = self.information.map(u32::try_from) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = (FIXED_BYTES - 8) as u8;
        bytes[12] = self.asc.0;
        bytes[13] = self.asc.1;
        if let Some(field) = self.field {
            bytes[15..18].copy_from_slice(&field.encode());
        }
        bytes
    }

    fn encode_descriptors(&self) -> Vec<u8> {
        let mut bytes = vec![0x72, self.key as u8, self.asc.0, self.asc.1, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0a, 0x80, 0]);
            bytes.extend(information.to_be_bytes());
        }
        if let Some(field) = self.field {
            bytes.extend([0x02, 0x06, 0, 0]);
            bytes.extend(field.encode());
            bytes.push(0);
        }
        bytes[7] = (bytes.len() - 8) as u8;
        bytes
    }
}

impl FieldPointer {
    /// The three sense key specific bytes, SKSV set.
    fn encode(self) -> [u8; 3] {
        let [high, low] = self.byte.to_be_bytes();
        let mut flags = 0x80;
        if self.in_cdb {
            flags |= 0x40;
        }
        if let Some(bit) = self.bit {
            flags |= 0x08 | (bit & 0x07);
        }
        [flags, high, low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cdb_field_has_a_pointer_in_both_formats() {
        let sense = Sense::invalid_cdb(2, Some(4));
        assert_eq!(
            sense.encode(SenseFormat::Fixed),
            [
                0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcc, 0, 2
            ]
        );
        assert_eq!(
            sense.encode(SenseFormat::Descriptor),
            [0x72, 5, 0x24, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0xcc, 0, 2, 0]
        );
    }

    #[test]
    fn information_beyond_32_bits_needs_the_descriptor_format() {
        let sense = Sense::new(
            SenseKey::Miscompare,
            Asc::MISCOMPARE_DURING_VERIFY_OPERATION,
        );
        let small = sense.with_information(0x0102_0304).encode_fixed();
        assert_eq!(&small[..7], [0xf0, 0, 0x0e, 1, 2, 3, 4]);
        let large = sense.with_information(0x1_0000_0000);
        assert_eq!(&large.encode_fixed()[..7], [0x70, 0, 0x0e, 0, 0, 0, 0]);
        assert_eq!(
            large.encode_descriptors(),
            [
                0x72, 0x0e, 0x1d, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0
            ]
        );
    }
}
