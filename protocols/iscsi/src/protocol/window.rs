//! Command numbering of a session (RFC 7143 section 4.2.2.1): determines the commands that are
//! delivered, held until a gap closes, or ignored.

use super::serial::Serial;

/// The action for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The next in order, or immediate: execute.
    Deliver,
    /// Inside the window but early (it came over another connection): hold it.
    Hold,
    /// Outside the window, or a duplicate: ignore it silently.
    Ignore,
}

/// The command window of a session.
///
/// Each pending command occupies one slot: MaxCmdSN is advanced only when a command completes, so
/// that an initiator never has more than `depth` of them in progress.
#[derive(Clone, Copy, Debug)]
pub struct CommandWindow {
    expected: Serial,
    max: Serial,
}

impl CommandWindow {
    /// Creates the window of a session with the first command number `first`.
    pub fn new(first: Serial, depth: u32) -> Self {
        debug_assert!(depth > 0);
        Self {
            expected: first,
            max: first.plus(depth - 1),
        }
    }

    /// ExpCmdSN.
    pub fn expected(&self) -> Serial {
        self.expected
    }

    /// MaxCmdSN.
    pub fn max(&self) -> Serial {
        self.max
    }

    /// Handles a received command. `Deliver` of an ordinary command advances ExpCmdSN.
    pub fn receive(&mut self, number: Serial, immediate: bool) -> Verdict {
        if immediate {
            // It carries the number of the next ordinary command and does not consume it. With
            // several connections that number may already be outdated on arrival, so that it is not
            // checked.
            return Verdict::Deliver;
        }
        if number == self.expected && !self.is_closed() {
            self.expected = self.expected.plus(1);
            return Verdict::Deliver;
        }
        if self.expected.is_before(number) && !self.max.is_before(number) {
            return Verdict::Hold;
        }
        Verdict::Ignore
    }

    /// Advances over a held command that is now delivered.
    pub fn advance(&mut self) {
        self.expected = self.expected.plus(1);
    }

    /// Frees the slot of a completed ordinary command.
    pub fn release(&mut self) {
        self.max = self.max.plus(1);
    }

    fn is_closed(&self) -> bool {
        self.max.plus(1) == self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_outside_the_window_are_ignored() {
        let mut window = CommandWindow::new(Serial(u32::MAX), 4);
        assert_eq!(window.receive(Serial(u32::MAX - 1), false), Verdict::Ignore);
        assert_eq!(window.receive(Serial(3), false), Verdict::Ignore);
        assert_eq!(window.receive(Serial(2), false), Verdict::Hold);
        assert_eq!(window.receive(Serial(u32::MAX), false), Verdict::Deliver);
        assert_eq!(window.receive(Serial(u32::MAX), false), Verdict::Ignore);
        assert_eq!(window.expected(), Serial(0));
    }

    #[test]
    fn a_full_window_opens_when_a_command_ends() {
        let mut window = CommandWindow::new(Serial(1), 2);
        assert_eq!(window.receive(Serial(1), false), Verdict::Deliver);
        assert_eq!(window.receive(Serial(2), false), Verdict::Deliver);
        assert_eq!(window.receive(Serial(3), false), Verdict::Ignore);
        assert_eq!(window.receive(Serial(3), true), Verdict::Deliver);
        window.release();
        assert_eq!(window.receive(Serial(3), false), Verdict::Deliver);
    }
}
