"""What users of Debian's redis-tools do, in both versions of the protocol: redis-cli
and redis-benchmark.

    use_tools.py PORT [CA_FILE KEY]
"""

import os
import pty
import re
import subprocess
import sys

PORT, SECURED = sys.argv[1], sys.argv[2:4]
TLS = ["--tls", "--cacert", SECURED[0]] if SECURED else []
ENVIRONMENT = dict(os.environ, REDISCLI_AUTH=SECURED[1]) if SECURED else dict(os.environ)


def words(*more):
    return ["redis-cli", "-h", "localhost", "-p", PORT, *TLS, *more]


def cli(*more, given="", code=0):
    """What redis-cli prints that is told so, or reads so."""
    ran = subprocess.run(words(*more), input=given, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == code, (more, ran)
    return ran.stdout + ran.stderr


def type_in(protocol, lines):
    """The screen of redis-cli after a person has typed these lines."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("redis-cli", words(*protocol), {**ENVIRONMENT, "TERM": "dumb"})
    screen = b""
    for line in [*lines, "quit"]:
        while not screen.rstrip(b" \x1b[0K").endswith(b">"):
            screen += os.read(terminal, 4096)
        screen += b" "
        os.write(terminal, f"{line}\r".encode())
    try:
        while some := os.read(terminal, 4096):
            screen += some
    except OSError:
        # It is closed at its other end.
        pass
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0
    return screen.decode()


def use_cli(protocol, yes, no):
    cli("del", "k", "piped", "typed")
    assert cli(*protocol, "cf.reserve", "k", "1000") == "OK\n"
    assert cli(*protocol, "cf.add", "k", "ada lovelace") == f"{yes}\n"
    assert cli(*protocol, "cf.mexists", "k", "ada lovelace", "alan") == f"{yes}\n{no}\n"
    assert cli(*protocol, "cf.info", "k").startswith(f"Size{' ' if protocol else chr(10)}4152\n")
    assert cli("-e", *protocol, "cf.info", "none", code=1).strip() == "ERR not found"
    assert cli(*protocol, "bf.reserve", "b", "0.01", "1000", "expansion", "2") == "OK\n"
    assert cli(*protocol, "bf.add", "b", "ada lovelace") == f"{yes}\n"
    assert cli(*protocol, "bf.madd", "b", "ada lovelace", "alan") == f"{no}\n{yes}\n"
    assert cli(*protocol, "bf.card", "b") == cli(*protocol, "bf.info", "b", "items").split(" ")[-1] == "2\n"
    assert cli("-e", *protocol, "bf.info", "none", code=1).strip() == "ERR not found"
    assert cli("del", "b") == "1\n"
    # Lines of a file, and a transaction in one.
    lines = 'cf.add k "grace hopper"\nmulti\ncf.del k "grace hopper"\ncf.exists k "grace hopper"\nexec\n'
    assert cli(*protocol, given=lines) == f"{yes}\nOK\nQUEUED\nQUEUED\n{yes}\n{no}\n"
    commands = "".join(f"*3\r\n$6\r\nCF.ADD\r\n$5\r\npiped\r\n${len(str(n))}\r\n{n}\r\n" for n in range(2000))
    for given in (commands, "".join(f"CF.ADD piped item-{n}\n" for n in range(2000))):
        assert "errors: 0, replies: 2000" in cli(*protocol, "--pipe", given=given)
    assert cli("cf.count", "piped", "item-1999") == "1\n"
    assert cli(*protocol, "--scan", "--pattern", "pipe?") == "piped\n"
    assert "2 MBbloomCFs" in cli(*protocol, "--bigkeys")
    assert "2 MBbloomCFs" in cli(*protocol, "--memkeys")
    screen = type_in(protocol, ["cf.add typed one", "cf.exists typed two", "cf.nosuch"])
    spoken = ("(true)", "(false)") if protocol else ("(integer) 1", "(integer) 0")
    for said in (*spoken, "(error) ERR unknown command 'cf.nosuch'"):
        assert said in screen, screen


def benchmark(protocol, pipeline, requests, *command):
    """Sends a command so often, and sees that all were answered."""
    auth = ["-a", SECURED[1]] if SECURED else []
    ran = subprocess.run(
        ["redis-benchmark", "-h", "localhost", "-p", PORT, *TLS, *auth, *protocol, "-q", "-r", "100000",
         "-n", str(requests), "-P", str(pipeline), *command],
        capture_output=True, text=True, timeout=300,
    )
    assert ran.returncode == 0, ran
    assert re.search(r"[\d.]+ requests per second", ran.stdout), ran


def use_benchmark(protocol):
    cli("del", "k")
    benchmark(protocol, 16, 3200, "cf.add", "k", "again")
    assert cli("cf.count", "k", "again") == "3200\n"
    benchmark(protocol, 1, 1000, "cf.exists", "k", "__rand_int__")
    benchmark(protocol, 16, 16000, "cf.exists", "k", "__rand_int__")
    assert cli("cf.info", "k").split("\n")[7] == "3200"
    benchmark(protocol, 16, 3200, "bf.add", "b", "again")
    benchmark(protocol, 16, 16000, "bf.exists", "b", "__rand_int__")
    assert cli("bf.card", "b") == "1\n"


def main():
    for protocol, yes, no in (([], "1", "0"), (["-3"], "(true)", "(false)")):
        use_cli(protocol, yes, no)
        use_benchmark(protocol)
        cli("del", "k", "b", "piped", "typed")
    version = subprocess.run(["redis-cli", "--version"], capture_output=True, text=True, check=True)
    print(f"{version.stdout.split()[0]} and redis-benchmark {version.stdout.split()[1]} work")


main()
