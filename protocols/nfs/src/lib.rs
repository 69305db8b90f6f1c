//! NFS 3, 4.0, 4.1 and 4.2 over TCP: serves file systems that implement
//! [`FileSystem`](file_system::FileSystem) as one tree.
//!
//! [`xdr`], [`rpc`], [`v3`] and [`v4`] convert bytes to bytes: no sockets, no clock. [`server`]
//! adds the sockets.
//!
//! The references are RFC 4506 (XDR), RFC 5531 (RPC), RFC 1813, RFC 7530, RFC 8881 and RFC 7862
//! (NFS), RFC 2203 (`RPCSEC_GSS`), RFC 1833 (rpcbind), and XNFS of the Open Group (NLM, NSM).

#![forbid(unsafe_code)]

pub mod activity;
pub mod exports;
pub mod handles;
pub mod hosts;
mod listing;
pub mod locks;
mod objects;
mod programs;
mod repeats;
pub mod rpc;
mod secured;
pub mod server;
pub mod sharenfs;
pub mod snapshots;
pub mod v3;
pub mod v4;
pub mod xdr;
