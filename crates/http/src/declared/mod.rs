//! What the route table declares of operations, and what follows from it for whoever
//! asks.
//!
//! | file | owns |
//! |---|---|
//! | `operation` | an operation, and what the route table declares of it |
//! | `requirement` | what each operation asks of its caller |

pub(super) mod operation;
pub(super) mod requirement;
