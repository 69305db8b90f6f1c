//! Data-Out of one task (RFC 7143 sections 4.2.5, 11.7, 11.8): immediate, unsolicited and solicited
//! data, at ErrorRecoveryLevel 0 with data in order.
//!
//! A failed transfer receives every outstanding sequence to its end, as section 7.7 demands. Only
//! then it completes with its [`TransferFault`].

use std::collections::VecDeque;

use super::header::TAG_NONE;
use super::parameters::SessionParameters;
use super::request::DataOut;

/// An R2T to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Target transfer tag.
    pub transfer_tag: u32,
    /// R2TSN.
    pub r2t_sn: u32,
    /// First requested byte.
    pub offset: u32,
    /// Number of requested bytes.
    pub length: u32,
}

/// An error in the data of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferFault {
    /// Unsolicited data that is not permitted, or that exceeds FirstBurstLength.
    #[error("unexpected unsolicited data")]
    UnexpectedUnsolicited,
    /// A sequence is too long, too short, or at a wrong offset.
    #[error("incorrect amount of data")]
    IncorrectAmount,
    /// A DataSN is not the next one.
    #[error("data out of sequence")]
    OutOfSequence,
    /// A data digest was wrong.
    #[error("wrong data digest")]
    Digest,
}

/// The destination of received data: `keep` bytes of it at `offset`; the rest is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Offset in the task's buffer.
    pub offset: u32,
    /// Leading bytes of the segment to store.
    pub keep: u32,
}

const NOWHERE: Placement = Placement { offset: 0, keep: 0 };

/// An outstanding sequence of Data-Out PDUs.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    transfer_tag: u32,
    next: u32,
    end: u32,
    next_data_sn: u32,
}

/// The state of one task's data.
#[derive(Debug)]
pub struct Transfer {
    /// Bytes that the command consumes; announced data beyond it is discarded.
    wanted: u32,
    /// Bytes that the initiator announced.
    announced: u32,
    received: u32,
    granted: u32,
    next_r2t_sn: u32,
    sequences: VecDeque<Sequence>,
    fault: Option<TransferFault>,
    burst_bytes_max: u32,
    outstanding_max: usize,
}

impl Transfer {
    /// Creates the state of a task that announced `announced` bytes and consumes `wanted` of them.
    /// `immediate` bytes came with the command; `more_unsolicited` means that its F bit was clear.
    pub fn new(
        session: &SessionParameters,
        announced: u32,
        wanted: u32,
        immediate: u32,
        more_unsolicited: bool,
    ) -> Self {
        let mut transfer = Self {
            wanted: wanted.min(announced),
            announced,
            received: immediate.min(announced),
            granted: 0,
            next_r2t_sn: 0,
            sequences: VecDeque::new(),
            fault: None,
            burst_bytes_max: session.max_burst_bytes,
            outstanding_max: session.max_outstanding_r2t.into(),
        };
        let first_burst = session.first_burst_bytes.min(announced);
        if (immediate > 0 && !session.immediate_data) || immediate > session.first_burst_bytes {
            transfer.fail(TransferFault::UnexpectedUnsolicited);
        } else if immediate > announced {
            transfer.fail(TransferFault::IncorrectAmount);
        }
        if more_unsolicited {
            if session.initial_r2t {
                transfer.fail(TransferFault::UnexpectedUnsolicited);
            }
            transfer.sequences.push_back(Sequence {
                transfer_tag: TAG_NONE,
                next: immediate,
                end: first_burst.max(immediate),
                next_data_sn: 0,
            });
        }
        transfer.granted = transfer.received;
        transfer
    }

    /// Records the first fault; later ones are consequences.
    pub fn fail(&mut self, fault: TransferFault) {
        self.fault.get_or_insert(fault);
    }

    /// The recorded fault.
    pub fn fault(&self) -> Option<TransferFault> {
        self.fault
    }

    /// Discards all further data, because the command was refused.
    pub fn discard_data(&mut self) {
        self.wanted = 0;
    }

    /// Handles the header of a Data-Out of `count` bytes. Returns `None` if no sequence has its
    /// tag.
    pub fn receive(&mut self, header: &DataOut, count: u32) -> Option<Placement> {
        let index = self
            .sequences
            .iter()
            .position(|sequence| sequence.transfer_tag == header.transfer_tag)?;
        let sequence = self.sequences[index];
        let solicited = sequence.transfer_tag != TAG_NONE;
        let end = u64::from(sequence.next) + u64::from(count);
        let fault = if header.data_sn != sequence.next_data_sn {
            Some(TransferFault::OutOfSequence)
        } else if end > u64::from(sequence.end) && !solicited {
            Some(TransferFault::UnexpectedUnsolicited)
        } else if header.offset != sequence.next
            || end > u64::from(sequence.end)
            || (header.is_final && solicited && end != u64::from(sequence.end))
        {
            Some(TransferFault::IncorrectAmount)
        } else {
            None
        };
        if let Some(fault) = fault {
            self.fail(fault);
        }
        let place = if self.fault.is_none() {
            let keep = self.wanted.saturating_sub(sequence.next).min(count);
            self.received += count;
            self.sequences[index].next += count;
            Placement {
                offset: sequence.next,
                keep,
            }
        } else {
            NOWHERE
        };
        self.sequences[index].next_data_sn = sequence.next_data_sn.wrapping_add(1);
        if header.is_final {
            self.sequences.remove(index);
            if !solicited {
                // Data that the unsolicited sequence did not contain is requested.
                self.granted = self.received;
            }
        }
        Some(place)
    }

    /// Returns the next R2T if it must be sent now.
    pub fn grant(&mut self, new_transfer_tag: impl FnOnce() -> u32) -> Option<Grant> {
        let unsolicited = self
            .sequences
            .front()
            .is_some_and(|sequence| sequence.transfer_tag == TAG_NONE);
        if unsolicited
            || self.fault.is_some()
            || self.granted >= self.wanted
            || self.sequences.len() >= self.outstanding_max
        {
            return None;
        }
        let length = (self.wanted - self.granted).min(self.burst_bytes_max);
        let grant = Grant {
            transfer_tag: new_transfer_tag(),
            r2t_sn: self.next_r2t_sn,
            offset: self.granted,
            length,
        };
        self.sequences.push_back(Sequence {
            transfer_tag: grant.transfer_tag,
            next: grant.offset,
            end: grant.offset + length,
            next_data_sn: 0,
        });
        self.granted += length;
        self.next_r2t_sn = self.next_r2t_sn.wrapping_add(1);
        Some(grant)
    }

    /// Whether no more data will arrive: all was received, or all sequences of a failed transfer
    /// have ended.
    pub fn is_complete(&self) -> bool {
        self.sequences.is_empty() && (self.fault.is_some() || self.received >= self.wanted)
    }

    /// Bytes announced by the initiator.
    pub fn announced(&self) -> u32 {
        self.announced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionParameters {
        SessionParameters {
            initial_r2t: false,
            max_burst_bytes: 4096,
            first_burst_bytes: 2048,
            max_outstanding_r2t: 2,
            ..SessionParameters::default()
        }
    }

    fn data(transfer_tag: u32, data_sn: u32, offset: u32, is_final: bool) -> DataOut {
        DataOut {
            is_final,
            task_tag: 1,
            transfer_tag,
            data_sn,
            offset,
        }
    }

    fn place(offset: u32, keep: u32) -> Option<Placement> {
        Some(Placement { offset, keep })
    }

    #[test]
    fn immediate_unsolicited_and_solicited_data_follow_each_other() {
        let mut transfer = Transfer::new(&session(), 10_240, 10_240, 512, true);
        assert_eq!(transfer.grant(|| 1), None, "unsolicited data comes first");
        let unsolicited = data(TAG_NONE, 0, 512, true);
        assert_eq!(transfer.receive(&unsolicited, 1536), place(512, 1536));
        let first = transfer.grant(|| 1).unwrap();
        assert_eq!((first.offset, first.length, first.r2t_sn), (2048, 4096, 0));
        let second = transfer.grant(|| 2).unwrap();
        assert_eq!(
            (second.offset, second.length, second.r2t_sn),
            (6144, 4096, 1)
        );
        assert_eq!(transfer.grant(|| 3), None, "MaxOutstandingR2T");
        transfer.receive(&data(1, 0, 2048, false), 2048).unwrap();
        transfer.receive(&data(1, 1, 4096, true), 2048).unwrap();
        transfer.receive(&data(2, 0, 6144, true), 4096).unwrap();
        assert!(transfer.is_complete());
        assert_eq!(transfer.fault(), None);
    }

    #[test]
    fn a_wrong_data_sn_fails_the_task_after_the_last_pdu() {
        let mut transfer = Transfer::new(&session(), 2048, 2048, 0, false);
        transfer.grant(|| 9).unwrap();
        transfer.receive(&data(9, 0, 0, false), 1024).unwrap();
        transfer.receive(&data(9, 0, 1024, false), 512).unwrap();
        assert!(!transfer.is_complete());
        transfer.receive(&data(9, 2, 1536, true), 512).unwrap();
        assert!(transfer.is_complete());
        assert_eq!(transfer.fault(), Some(TransferFault::OutOfSequence));
    }

    #[test]
    fn data_over_the_first_burst_is_unexpected() {
        let mut transfer = Transfer::new(&session(), 4096, 4096, 0, true);
        assert_eq!(
            transfer.receive(&data(TAG_NONE, 0, 0, true), 2049),
            Some(NOWHERE)
        );
        assert_eq!(transfer.fault(), Some(TransferFault::UnexpectedUnsolicited));
        let transfer = Transfer::new(&SessionParameters::default(), 4096, 4096, 0, true);
        assert_eq!(transfer.fault(), Some(TransferFault::UnexpectedUnsolicited));
    }

    #[test]
    fn data_outside_the_granted_range_is_refused() {
        for (offset, count) in [(1024, 512), (0, 4097), (0, 100)] {
            let mut transfer = Transfer::new(&session(), 4096, 4096, 0, false);
            transfer.grant(|| 9).unwrap();
            transfer.receive(&data(9, 0, offset, true), count).unwrap();
            assert_eq!(transfer.fault(), Some(TransferFault::IncorrectAmount));
            assert!(transfer.is_complete());
        }
    }

    #[test]
    fn announced_data_beyond_the_command_is_dropped() {
        let mut transfer = Transfer::new(&session(), 2048, 512, 0, true);
        let placed = transfer.receive(&data(TAG_NONE, 0, 0, true), 2048);
        assert_eq!(placed, place(0, 512));
        assert!(transfer.is_complete());
        assert_eq!(transfer.fault(), None);
    }

    #[test]
    fn an_unknown_transfer_tag_has_no_sequence() {
        let mut transfer = Transfer::new(&session(), 2048, 2048, 0, false);
        transfer.grant(|| 9).unwrap();
        assert_eq!(transfer.receive(&data(8, 0, 0, true), 512), None);
    }
}
