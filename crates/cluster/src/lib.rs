//! Adapters to Corosync, Pacemaker and the heads, real and fake.

#![forbid(unsafe_code)]
