//! The server as its users meet it: a process that is started, asked over a
//! socket, stopped, and killed. Nothing here knows what is inside.

mod crash;
mod server;
mod start;
mod stop;
mod tour;
