//! What stands between a connection and a handler. From the outside in:
//!
//! | file | what it does |
//! |---|---|
//! | `errors` | gives each request an id, renders every error in one shape, logs each failure once, counts |
//! | `origin` | keeps web pages of other origins away; the error layer asks it |
//! | `coding` | compresses answers and decompresses bodies |
//! | `auth` | finds the API key of a request and refuses what it does not allow |
//! | `audit` | logs who did what, for operations that end or replace something |
//! | `ending` | cuts streams off when their key expires or is removed |

pub(super) mod audit;
pub(super) mod auth;
pub(super) mod coding;
pub(super) mod ending;
pub(super) mod errors;
pub(super) mod origin;
