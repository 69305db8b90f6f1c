//! Who may own a pool, and on which proof: pure.

#![forbid(unsafe_code)]
