//! A client that keeps one connection and hides nothing of what becomes of it: no
//! second try, no pool.

use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection at a time.
pub(crate) struct Wire {
    port: u16,
    stream: Option<TcpStream>,
    /// Whether it looks, before it sends, if the connection was closed meanwhile.
    looks: bool,
    /// The address that it comes from, of the loopback network.
    from: Ipv4Addr,
}

/// An answer, as far as the tests look at it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Whether it ends its connection.
    pub(crate) ends: bool,
    pub(crate) text: String,
}

/// What became of a request.
pub(crate) enum Sending {
    Answered(Answer),
    /// Nothing was sent: nobody listens.
    NotConnected,
}

impl Wire {
    pub(crate) fn to(port: u16) -> Wire {
        Wire {
            port,
            stream: None,
            looks: true,
            from: Ipv4Addr::LOCALHOST,
        }
    }

    pub(crate) fn that_does_not_look(port: u16) -> Wire {
        Wire {
            looks: false,
            ..Wire::to(port)
        }
    }

    /// From an address that nobody else has.
    pub(crate) fn from_elsewhere(port: u16) -> Wire {
        Wire {
            from: Ipv4Addr::new(127, 0, 0, 2),
            ..Wire::to(port)
        }
    }

    /// Connects, if there is no connection that was not closed meanwhile.
    pub(crate) fn connect(&mut self) -> io::Result<&mut TcpStream> {
        let looks = self.looks;
        let is_open = self.stream.as_ref().is_some_and(|stream| {
            if !looks {
                return true;
            }
            stream.set_nonblocking(true).unwrap();
            let waits = stream.peek(&mut [0]);
            stream.set_nonblocking(false).unwrap();
            waits.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        if !is_open {
            self.stream = None;
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SocketAddr::from((self.from, 0)).into())?;
            socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)).into())?;
            let stream = TcpStream::from(socket);
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            self.stream = Some(stream);
        }
        Ok(self.stream.as_mut().unwrap())
    }

    /// Posts items, one a line.
    ///
    /// # Errors
    /// There was a connection, and no whole answer came.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> io::Result<Sending> {
        match self.connect() {
            Ok(_) => self.answer("POST", path, body).map(Sending::Answered),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(Sending::NotConnected),
            Err(error) => Err(error),
        }
    }

    /// Sends a request, and reads its answer.
    pub(crate) fn answer(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.whole(request.as_bytes())
    }

    /// Sends the bytes of a request, and reads its answer.
    pub(crate) fn whole(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.connect()?.write_all(request)?;
        self.read()
    }

    /// Reads an answer, asked for or not.
    pub(crate) fn read(&mut self) -> io::Result<Answer> {
        let stream = self.stream.as_mut().unwrap();
        let mut bytes = Vec::new();
        loop {
            if let Some(answer) = parsed(&bytes) {
                if answer.ends {
                    self.stream = None;
                }
                return Ok(answer);
            }
            let mut piece = [0; 4096];
            match stream.read(&mut piece)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                length => bytes.extend_from_slice(&piece[..length]),
            }
        }
    }
}

/// The answer in the bytes, if all of it is there.
fn parsed(bytes: &[u8]) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes).unwrap() else {
        return None;
    };
    let value = |name: &str| {
        let header = head.headers.iter().find(|it| it.name == name);
        header.map(|it| std::str::from_utf8(it.value).unwrap())
    };
    let body_length: usize = value("content-length").unwrap().parse().unwrap();
    let body = bytes.get(length..length + body_length)?;
    Some(Answer {
        status: head.code.unwrap(),
        ends: value("connection") == Some("close"),
        text: String::from_utf8(body.to_vec()).unwrap(),
    })
}
