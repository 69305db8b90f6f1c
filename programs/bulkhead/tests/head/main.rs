//! One head: the real binary, its pool servers and stock clients.

#[path = "../common/mod.rs"]
mod common;

mod block_devices;
mod care;
mod confinement;
mod copies;
mod encrypted_copies;
mod encryption;
mod file_systems;
mod frozen;
mod given_up;
mod growth;
mod guest_pools;
mod guidance;
mod hardware;
mod help_examples;
mod in_use;
mod kerberos;
mod lost_packets;
mod mounted_files;
mod network_bench;
mod offline;
mod other_library;
mod pool_iostat;
mod recursive_snapshots;
mod replication;
mod rescue;
mod rescued_contents;
mod results;
mod rollback;
mod schedules;
mod secrets;
mod server;
mod space;
mod stock_clients;
mod supervisor;
mod transfer;
mod trouble;
