//! stub
use crate::cli::{Common, ServeArgs};
use control::Failure;
pub fn run(_a: ServeArgs, _c: &Common) -> Result<(), Failure> {
    Err(Failure::usage("stub"))
}
