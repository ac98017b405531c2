//! Words: which commands there are, what their arguments mean, and what
//! errors are called. Nothing here asks the engine.
//!
//! | file | what it owns |
//! |---|---|
//! | `table` | every command: its name, arity, scope and keys |
//! | `describe` | what `COMMAND` says of them |
//! | `help` | what `HELP` says of those with subcommands |
//! | `items` | the commands that work on items |
//! | `reserve` | the arguments of `CF.RESERVE` and `BF.RESERVE` |
//! | `filter` | what `CF.INFO`, `BF.INFO` and `CF.DEBUG` say of a filter |
//! | `keyspace` | the arguments of `SCAN` and of the commands about time |
//! | `glob` | patterns |
//! | `errors` | what errors are called |

pub(crate) mod describe;
pub(crate) mod errors;
pub(crate) mod filter;
pub(crate) mod glob;
pub(crate) mod help;
pub(crate) mod items;
pub(crate) mod keyspace;
pub(crate) mod reserve;
pub(crate) mod table;
