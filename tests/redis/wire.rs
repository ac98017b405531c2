//! A client that sends words and reads replies as they are.

use crate::words;
use socket2::{Domain, Socket, Type};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A command as it is sent.
pub(crate) fn command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    words::remember_command(words);
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).unwrap())
    }

    /// The same from another address of this machine.
    pub(crate) fn connect_from(from: &str, address: SocketAddr) -> Client {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let from = SocketAddr::new(from.parse().unwrap(), 0);
        socket.bind(&from.into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Client::over(socket.into())
    }

    /// The same with a small buffer: what it does not read stays with the server.
    pub(crate) fn connect_small(address: SocketAddr) -> Client {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&address.into()).unwrap();
        Client::over(socket.into())
    }

    /// Whether nothing has come for so long.
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(time)).unwrap();
        let came = self.stream.fill_buf().is_ok();
        let stream = self.stream.get_ref();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        !came
    }

    fn over(stream: TcpStream) -> Client {
        stream.set_nodelay(true).unwrap();
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).unwrap();
        // Of a connection that the server has closed while neither side reads, the system
        // says so after minutes.
        stream.set_write_timeout(patience).unwrap();
        Client {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// The same, to a server that may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// One reply as it came; empty: the connection has ended.
    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        // One that is reset has ended, too.
        if self.stream.read_until(b'\n', &mut line).is_err() || line.is_empty() {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(&line[1..]).trim().to_owned();
        let number = || text.parse::<i64>().unwrap();
        let parts = match line[0] {
            b'$' | b'=' if number() >= 0 => {
                let mut rest = vec![0; number() as usize + 2];
                self.stream.read_exact(&mut rest).unwrap();
                line.extend(rest);
                0
            }
            b'*' | b'~' => number().max(0),
            b'%' => 2 * number(),
            _ => 0,
        };
        for _ in 0..parts {
            line.extend(self.reply());
        }
        line
    }

    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        self.send(&command(words));
        self.reply()
    }

    /// The reply to a line of words without blanks in them.
    pub(crate) fn tell(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = self.ask(&words);
        reply.escape_ascii().to_string()
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, line: &str, reply: &str) {
        assert_eq!(self.tell(line), reply, "{line}");
    }

    /// Whether nothing comes any more.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.reply().is_empty()
    }
}
