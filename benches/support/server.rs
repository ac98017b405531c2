//! The real program as a process, and a client that costs little: one
//! connection, one request after the other.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a server to be ready or to stop.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running server. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts a server and waits until it is ready; says how long that took,
    /// from before the process was there.
    pub(crate) fn start(data: &Path, flags: &[&str]) -> Result<(Server, Duration), Box<dyn Error>> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cuckood"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CUCKOOD_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--log-level", "error", "--listen"])
            .arg(format!("127.0.0.1:{port}"))
            .arg("--data-dir")
            .arg(data)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let started = Instant::now();
        let child = command.spawn()?;
        let mut server = Server { child, port };
        while started.elapsed() < PATIENCE {
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("the server ended with {status}").into());
            }
            if let Ok(mut client) = server.client()
                && let Ok((200, _)) = client.ask("GET", "/readyz", "", "")
            {
                return Ok((server, started.elapsed()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err("the server is not ready".into())
    }

    /// Another connection to it.
    pub(crate) fn client(&self) -> std::io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        Ok(Client {
            reader: BufReader::new(stream),
        })
    }

    /// Its process number.
    pub(crate) fn process(&self) -> String {
        self.child.id().to_string()
    }

    /// Value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> Result<f64, Box<dyn Error>> {
        let (_, text) = self.client()?.ask("GET", "/metrics", "", "")?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .ok_or("there is no such metric")?;
        Ok(value.parse()?)
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to stop, and waits; says how long that took.
    pub(crate) fn stop(mut self) -> Result<Duration, Box<dyn Error>> {
        let started = Instant::now();
        // The shell's own `kill`: a bare system need not have another one.
        Command::new("sh")
            .args(["-c", &format!("kill -TERM {}", self.child.id())])
            .status()?;
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(started.elapsed()),
            false => Err(format!("the server ended with {status}").into()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Asks, and waits for status and body.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        content_type: &str,
        body: &str,
    ) -> Result<(u16, String), Box<dyn Error>> {
        let mut request = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n");
        if !content_type.is_empty() {
            request += &format!(
                "content-type: {content_type}\r\naccept: {content_type}\r\ncontent-length: {}\r\n",
                body.len()
            );
        }
        request += "\r\n";
        request += body;
        self.reader.get_mut().write_all(request.as_bytes())?;

        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).ok_or("no status")?.parse()?;
        let mut length = 0;
        loop {
            line.clear();
            self.reader.read_line(&mut line)?;
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse()?;
            }
            if header.starts_with("transfer-encoding") {
                return Err("an answer in chunks".into());
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok((status, String::from_utf8(body)?))
    }
}
