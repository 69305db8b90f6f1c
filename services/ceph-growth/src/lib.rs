//! `bulkhead growth`: reads a Ceph cluster or a saved map with Ceph's own tools, and prints the plan. The tools run as
//! processes; nothing of Ceph is linked, and no command here changes a cluster.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod command;
mod files;
mod live;
mod model;
mod text;
mod tools;
mod watch;
