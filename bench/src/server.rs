//! A private PostgreSQL: a copy of the server's tree with the extension installed in it, and throw-away clusters beside it,
//! all under one temporary directory. Works for root (the server then runs as `postgres`) and for an ordinary user. Servers
//! listen on a Unix socket only, so no port can clash; they die with this process, however it ends.

use crate::Result;
use postgres::{Client, NoTls};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const START_SECONDS: u64 = 60;

/// The copied server tree; it and every cluster in it are removed when the last user lets go.
pub struct Tree {
    root: TempDir,
    bin: PathBuf,
    lib: PathBuf,
    /// The account that servers run as, where that is not the caller's.
    account: Option<Account>,
    clusters: AtomicUsize,
}

struct Account {
    name: &'static str,
    user: u32,
    group: u32,
}

impl Tree {
    /// Copies the server that PG_CONFIG names and installs the built extension into the copy.
    pub fn install() -> Result<Arc<Self>> {
        // The number of a process would not do as a name: each Debian root of its own counts processes from 1.
        let root = tempfile::Builder::new()
            .prefix("varve-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()?;
        let (bin, lib, share) = (
            pg_config("--bindir")?,
            pg_config("--pkglibdir")?,
            pg_config("--sharedir")?,
        );
        let directory = root.path().to_owned();
        let inside = |path: &str| directory.join(path.trim_start_matches('/'));
        let tree = Arc::new(Self {
            bin: inside(&bin),
            lib: inside(&lib),
            account: account()?,
            clusters: AtomicUsize::new(0),
            root,
        });
        for path in [&bin, &lib, &share] {
            let copy = inside(path);
            fs::create_dir_all(&copy)?;
            run(Command::new("cp")
                .arg("-a")
                .arg(format!("{path}/."))
                .arg(&copy))?;
        }
        run(Command::new("make")
            .args(["--silent", "--no-print-directory", "install"])
            .arg(format!("DESTDIR={}", directory.display())))?;
        Ok(tree)
    }

    /// A program of the server: psql, pg_dump, initdb …
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        self.clean(&mut command);
        command
    }

    /// A program of the server, run by the account that owns the clusters.
    pub fn program_as_server(&self, name: &str) -> Command {
        self.as_server(&self.bin.join(name))
    }

    /// A test driver, run by the account that owns the clusters.
    pub fn test_driver_as_server(&self, relative: &str) -> Command {
        self.as_server(&self.lib.join("pgxs/src/test").join(relative))
    }

    fn as_server(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        if let Some(account) = &self.account {
            command.args([
                format!("--reuid={}", account.name),
                format!("--regid={}", account.group),
                "--clear-groups".into(),
            ]);
        }
        command
            .args(["--pdeathsig", "INT"])
            .arg(program)
            .current_dir("/");
        self.clean(&mut command);
        command
    }

    /// pg_regress or pg_isolation_regress, as packaged.
    pub fn test_driver(&self, relative: &str) -> Command {
        let mut command = Command::new(self.lib.join("pgxs/src/test").join(relative));
        self.clean(&mut command);
        command
    }

    pub fn bin(&self) -> &Path {
        &self.bin
    }

    pub fn lib(&self) -> &Path {
        &self.lib
    }

    /// Copies what is in `from` into `to`, owned by the servers' account.
    pub fn copy_for_server(&self, from: &Path, to: &Path) -> Result<()> {
        run(Command::new("cp").arg("-r").arg(from.join(".")).arg(to))?;
        match &self.account {
            Some(account) => run(Command::new("chown")
                .arg("-R")
                .arg(format!("{}:{}", account.user, account.group))
                .arg(to)),
            None => Ok(()),
        }
    }

    /// A new empty directory that the servers' account may write to.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let number = self.clusters.fetch_add(1, Ordering::Relaxed);
        let path = self.root.path().join(format!("{name}-{number}"));
        fs::create_dir_all(&path)?;
        if let Some(account) = &self.account {
            std::os::unix::fs::chown(&path, Some(account.user), Some(account.group))?;
        }
        Ok(path)
    }

    /// Whoever asks for backtraces must not find them in the DETAIL of errors; locales would change messages.
    fn clean(&self, command: &mut Command) {
        command
            .env("RUST_BACKTRACE", "1")
            .env("LC_ALL", "C")
            .env("TZ", "UTC");
    }
}

/// One cluster, started and stopped at will; dropping it kills its server.
pub struct Cluster {
    pub tree: Arc<Tree>,
    home: PathBuf,
    server: Option<Child>,
    /// The most address space that each of the server's processes may have.
    most_memory_bytes: Option<u64>,
}

impl Cluster {
    /// A new cluster with these lines of configuration beyond the usual ones, running.
    pub fn create(tree: &Arc<Tree>, settings: &[&str]) -> Result<Self> {
        Self::create_with(tree, &[], settings)
    }

    /// The same, with further options of initdb.
    pub fn create_with(tree: &Arc<Tree>, options: &[&str], settings: &[&str]) -> Result<Self> {
        let mut cluster = Self::prepare(tree)?;
        let initdb = [
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ];
        run(cluster
            .tree
            .program_as_server("initdb")
            .args(initdb)
            .args(options)
            .arg("-D")
            .arg(cluster.data())
            .stdout(Stdio::null()))?;
        cluster.configure(&[
            "listen_addresses = ''",
            "fsync = off",
            "shared_buffers = '256MB'",
            "max_wal_size = '4GB'",
            "max_prepared_transactions = 10",
            "timezone = 'UTC'",
            "log_statement = 'none'",
            "log_checkpoints = off",
            // What a test expects must not hang on when a worker comes by; those that want one say so.
            "varve.worker = off",
        ])?;
        cluster.configure(settings)?;
        cluster.start()?;
        Ok(cluster)
    }

    /// A copy of this cluster by pg_basebackup, not yet started; `standby` makes it one of this cluster's.
    pub fn base_backup(&self, standby: bool) -> Result<Self> {
        let copy = Self::prepare(&self.tree)?;
        let mut command = self.tree.program_as_server("pg_basebackup");
        command
            .args(["--username=postgres", "--no-sync", "--checkpoint=fast"])
            .arg("-h")
            .arg(&self.home)
            .arg("-D")
            .arg(copy.data());
        if standby {
            command.arg("--write-recovery-conf");
        }
        run(&mut command)?;
        Ok(copy)
    }

    fn prepare(tree: &Arc<Tree>) -> Result<Self> {
        Ok(Self {
            home: tree.directory("cluster")?,
            tree: Arc::clone(tree),
            server: None,
            most_memory_bytes: None,
        })
    }

    pub fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// The socket's directory, which is the `host` of a connection.
    pub fn host(&self) -> &Path {
        &self.home
    }

    /// The socket itself.
    pub fn socket(&self) -> PathBuf {
        self.home.join(".s.PGSQL.5432")
    }

    /// Adds lines to postgresql.conf; they take effect at the next start.
    pub fn configure(&self, settings: &[&str]) -> Result<()> {
        let path = self.data().join("postgresql.conf");
        let mut text = fs::read_to_string(&path)?;
        for setting in settings {
            text.push_str(&format!("{setting}\n"));
        }
        Ok(fs::write(path, text)?)
    }

    /// Limits the address space of each process of the server, from the next start on.
    pub fn limit_memory(&mut self, most_bytes: u64) {
        self.most_memory_bytes = Some(most_bytes);
    }

    /// Starts the server and waits until it answers, recovery included.
    pub fn start(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(START_SECONDS);
        loop {
            let log = fs::File::options()
                .create(true)
                .append(true)
                .open(self.home.join("log"))?;
            let mut command = self.tree.program_as_server("postgres");
            command
                .arg("-D")
                .arg(self.data())
                .arg("-k")
                .arg(&self.home)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log);
            if let Some(most) = self.most_memory_bytes {
                limit_address_space(&mut command, most);
            }
            let mut server = command.spawn()?;
            while server.try_wait()?.is_none() && Instant::now() < deadline {
                if self.connect("postgres").is_ok() {
                    self.server = Some(server);
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // After a kill -9 the last backends may hold the shared memory for a moment: try again until the deadline.
            self.signal(&server, "KILL")?;
            server.wait()?;
            if Instant::now() >= deadline {
                return Err(format!("the server does not start:\n{}", self.log_end()?).into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the server answers again after one of its processes was killed.
    pub fn await_restart(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(START_SECONDS);
        while self.connect("postgres").is_err() {
            if Instant::now() >= deadline {
                return Err(format!("the server does not come back:\n{}", self.log_end()?).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// A fast shutdown.
    pub fn stop(&mut self) -> Result<()> {
        self.end("INT")
    }

    /// kill -9 of the postmaster; its backends notice and go.
    pub fn kill(&mut self) -> Result<()> {
        self.end("KILL")
    }

    fn end(&mut self, signal: &str) -> Result<()> {
        if let Some(mut server) = self.server.take() {
            self.signal(&server, signal)?;
            server.wait()?;
        }
        Ok(())
    }

    fn signal(&self, server: &Child, name: &str) -> Result<()> {
        let mut pg_ctl = self.tree.program_as_server("pg_ctl");
        pg_ctl
            .args(["kill", name])
            .arg(server.id().to_string())
            .stderr(Stdio::null())
            .status()?;
        Ok(())
    }

    pub fn connect(&self, database: &str) -> Result<Client> {
        Ok(Client::connect(&self.conninfo(database), NoTls)?)
    }

    /// What a client in another thread connects with.
    pub fn conninfo(&self, database: &str) -> String {
        format!(
            "host={} user=postgres dbname={database}",
            self.home.display()
        )
    }

    /// A new database with the extension in it, and a connection to it.
    pub fn database(&self, name: &str) -> Result<Client> {
        self.connect("postgres")?
            .batch_execute(&format!("CREATE DATABASE {name}"))?;
        let mut client = self.connect(name)?;
        client.batch_execute("CREATE EXTENSION varve")?;
        Ok(client)
    }

    /// All that the server has logged.
    pub fn log(&self) -> Result<String> {
        let text = fs::read(self.home.join("log"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The last lines of the server's log.
    pub fn log_end(&self) -> Result<String> {
        let text = self.log()?;
        let lines: Vec<&str> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.is_some() && self.end("INT").is_err() {
            eprintln!("could not stop the server in {}", self.home.display());
        }
    }
}

/// As `ulimit -v`.
fn limit_address_space(command: &mut Command, most_bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: most_bytes,
        rlim_max: most_bytes,
    };
    let set = move || {
        // SAFETY: a limit to set.
        match unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec nothing but a system call is made.
    unsafe { command.pre_exec(set) };
}

/// Runs a program to its end; anything but success is an error with what it wrote to stderr.
pub fn run(command: &mut Command) -> Result<()> {
    let output = command.stderr(Stdio::piped()).spawn()?.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let name = command.get_program().to_string_lossy().into_owned();
    Err(format!(
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    )
    .into())
}

/// Runs a program and returns what it wrote to stdout.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} failed", command.get_program().to_string_lossy()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_string())
}

/// The commit that is checked out, for the head of a page of results.
pub fn commit() -> Result<String> {
    output(Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]))
}

pub fn pg_config(what: &str) -> Result<String> {
    let program = std::env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".into());
    output(Command::new(program).arg(what))
}

/// initdb and postgres refuse to run as root: then it is the package's own account.
fn account() -> Result<Option<Account>> {
    if output(Command::new("id").arg("-u"))? != "0" {
        return Ok(None);
    }
    let name = "postgres";
    let number = |option: &str| -> Result<u32> {
        Ok(output(Command::new("id").args([option, name]))?.parse()?)
    };
    Ok(Some(Account {
        name,
        user: number("-u")?,
        group: number("-g")?,
    }))
}
