//! Table tests of the access rules and of each service action.
