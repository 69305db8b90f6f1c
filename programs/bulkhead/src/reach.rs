//! stub
use crate::cli::{Common, Whose};
use control::request::PoolCreate;
use control::{Answer, Failure, Request};
use units::PoolName;
pub fn ask(
    _c: &Common,
    _p: &Whose,
    _r: Request,
    _progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    Err(Failure::usage("stub"))
}
pub fn create(_c: &Common, _p: PoolCreate) -> Result<Answer, Failure> {
    Err(Failure::usage("stub"))
}
pub fn discover(_c: &Common) -> Result<Answer, Failure> {
    Err(Failure::usage("stub"))
}
pub fn take_over(_c: &Common, _p: &PoolName, _b: bool) -> Result<Answer, Failure> {
    Err(Failure::usage("stub"))
}
