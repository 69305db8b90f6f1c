//! Formats plans and changes for people.

use std::fmt;

use units::PoolName;

use super::{AUTHKEY_PATH, AuthkeySource, Change, Obstacle, PEER_KEY_PATH, Plan};

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteFile {
                head,
                path,
                text,
                mode,
                is_new,
                lines,
            } => {
                write!(f, "{head}: write {}", path.display())?;
                if *is_new {
                    write!(f, " (new, {} lines)", text.lines().count())?;
                } else if lines.is_empty() {
                    write!(f, " (only its mode changes, to {mode:04o})")?;
                }
                for line in lines {
                    write!(f, "\n    {line}")?;
                }
                Ok(())
            }
            Self::WriteAuthkey { head, source } => {
                let source = match source {
                    AuthkeySource::New => "a new secret".to_owned(),
                    AuthkeySource::Head(head) => format!("the secret of {head}"),
                };
                write!(f, "{head}: write {source} to {AUTHKEY_PATH} (not shown)")
            }
            Self::WritePeerKey { head, source } => {
                let source = match source {
                    AuthkeySource::New => "a new key of the heads".to_owned(),
                    AuthkeySource::Head(head) => format!("the key of the heads, from {head},"),
                };
                write!(f, "{head}: write {source} to {PEER_KEY_PATH} (not shown)")
            }
            Self::SetPortals {
                head,
                pool,
                new,
                gone,
                ..
            } => {
                write!(
                    f,
                    "{head}: have the server of {pool} listen elsewhere, without a restart"
                )?;
                for (sign, portals) in [("-", gone), ("+", new)] {
                    for option in portals.words().chunks(2) {
                        write!(f, "\n    {sign}{}", option.join(" "))?;
                    }
                }
                Ok(())
            }
            Self::SetWitness {
                head,
                pool,
                witness: Some(witness),
                ..
            } => write!(
                f,
                "{head}: add {witness} to the record of {pool} while it is served, with both heads agreeing"
            ),
            Self::SetWitness { head, pool, .. } => write!(
                f,
                "{head}: remove the witness from the record of {pool} while it is served, with both heads agreeing"
            ),
            Self::AddHead {
                head, pool, coming, ..
            } => write!(
                f,
                "{head}: add the head {coming} to the record of {pool} while it is served, with both heads agreeing"
            ),
            Self::AttachLeg {
                head, pool, leg, ..
            } => write!(
                f,
                "{head}: attach {leg} to {pool}, and copy all data to it while the pool is served"
            ),
            Self::AddGroup {
                head, pool, group, ..
            } => write!(
                f,
                "{head}: bulkhead pool add {pool} {}\n    widens {pool} by this group while it is served; a group cannot be removed again",
                group.join(" ")
            ),
            Self::StopResources { resources } => {
                let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
                write!(f, "have Pacemaker stop {}", resources.join(", "))
            }
            Self::ReloadCorosync { head } => {
                write!(
                    f,
                    "{head}: have every Corosync read its configuration again"
                )
            }
            Self::StopUnit { head, unit } => write!(f, "{head}: stop and disable {unit}"),
            Self::AwaitLegs { head, pools, .. } => {
                let pools: Vec<&str> = pools.iter().map(PoolName::as_str).collect();
                write!(
                    f,
                    "{head}: wait until the legs of {} are current, as far as they can be, and the disks of {head} can be away",
                    pools.join(", ")
                )
            }
            Self::RestartUnit { head, unit } => {
                write!(
                    f,
                    "{head}: restart {unit}, which reads its settings when it starts"
                )
            }
            Self::AwaitWitness { head } => {
                write!(f, "{head}: wait until the witness responds to it")
            }
            Self::StartUnit { head, unit } => write!(f, "{head}: enable and start {unit}"),
            Self::MakeCertificate { head, names, .. } => {
                let names = names.join(", ");
                write!(
                    f,
                    "{head}: make a certificate for its API and console ({names})"
                )
            }
            Self::ConfigurePacemaker { changes, .. } => {
                f.write_str("configure Pacemaker")?;
                for change in changes {
                    for line in change.to_string().lines() {
                        write!(f, "\n    {line}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Obstacle { what, mend } in &self.obstacles {
            writeln!(f, "in the way: {what}\n  mend: {mend}")?;
        }
        for change in &self.changes {
            writeln!(f, "{change}")?;
        }
        if !self.pools_to_make.is_empty() {
            writeln!(f, "then, by hand, and apply again afterwards:")?;
        }
        for pool in &self.pools_to_make {
            writeln!(f, "{pool}")?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        if self.is_empty() {
            writeln!(f, "everything is as the file says")?;
        }
        Ok(())
    }
}
