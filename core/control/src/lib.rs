//! The control API of a pool server: requests, responses, and their transport over a Unix socket.
//! The export documents that are stored in the pool are here too, because the command line, the
//! server and the tests must agree on them byte for byte.
//!
//! This crate never accesses a pool: the binary performs the requests.
//!
//! The format is specified in `docs/formats/control.md` and `docs/formats/exports.md`.

#![forbid(unsafe_code)]

pub mod advice;
pub mod answer;
pub mod calendar;
pub mod client;
pub mod copy_rate;
pub mod descriptor;
pub mod effect;
pub mod exports;
pub mod failure;
pub mod frame;
pub mod history;
pub mod key;
pub mod legs;
pub mod lock;
pub mod operations;
pub mod owners;
pub mod portal;
pub mod read_balancing;
pub mod replication;
pub mod request;
pub mod rescue;
pub mod schedule;
pub mod secret;
pub mod selection;
pub mod server;
pub mod slots;
pub mod snapshot_set;
pub mod space;
pub mod transfer;
pub mod words;

pub use advice::{Advice, Button, Severity};
pub use answer::Answer;
pub use client::{Client, ClientError};
pub use effect::Effect;
pub use failure::{Failure, FailureKind};
pub use lock::{Holder, PoolLock};
pub use request::Request;
pub use secret::Secret;
pub use server::{Attached, Handler, OPENING, Peer, Server, Witness};
