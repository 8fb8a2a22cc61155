//! PostgreSQL's own regression and isolation suites with varve as the default table access method. What they print must be the same as with
//! heap, file by file, after the filter; the exceptions are named in docs/core-suites.md.

mod answers;
mod counts;
mod filter;

use crate::heap_pair;
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::Result;
use filter::filtered;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;

const EXCEPTIONS: &str = "docs/core-suites.md";

/// A step of an isolation test that waits longer is cancelled, and so is a statement of the other suite: a lock that is never
/// granted fails one test and not the run.
const STEP_SECONDS: u32 = 12;
const STATEMENT_SECONDS: u32 = 120;

/// Where the sources are; None, with a line that says why, where they cannot be had.
pub struct Sources {
    directory: PathBuf,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Suite {
    Regression,
    Isolation,
}

impl FromStr for Suite {
    type Err = ();

    fn from_str(name: &str) -> std::result::Result<Self, ()> {
        [Suite::Regression, Suite::Isolation]
            .into_iter()
            .find(|suite| suite.name() == name)
            .ok_or(())
    }
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Suite::Regression => "regress",
            Suite::Isolation => "isolation",
        }
    }

    fn schedule(self) -> &'static str {
        match self {
            Suite::Regression => "parallel_schedule",
            Suite::Isolation => "isolation_schedule",
        }
    }
}

/// Torture mode: every row is a compressed one as soon as it is committed, in chunks of so many rows.
#[derive(Clone, Copy, PartialEq)]
pub struct Torture {
    pub chunk_rows: u32,
}

impl Torture {
    /// As the server's command line wants it, for superusers.
    pub fn settings(self) -> String {
        format!("-c varve.debug_compress=torture{}", self.sizes())
    }

    fn sizes(self) -> String {
        format!(
            " -c varve.batch_rows=1 -c varve.chunk_rows={}",
            self.chunk_rows
        )
    }

    /// Those of any user; the database has the rest. Which transactions get into serialization conflicts is a matter of their plans: heap's sessions leave indexes aside too.
    fn settings_of(self, suite: Suite) -> String {
        let plans = match suite {
            Suite::Regression => "",
            Suite::Isolation => {
                " -c enable_indexscan=off -c enable_indexonlyscan=off -c enable_bitmapscan=off"
            }
        };
        self.sizes() + plans
    }
}

/// What `make test` asks for: the isolation suite in torture mode, whose exceptions are those of version 15, and which waits
/// most of its time; then both suites as they are.
pub fn test(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    if server::pg_config("--version")?.starts_with("PostgreSQL 15") {
        run(tree, report, Some(Suite::Isolation), Some(7))?;
    }
    run(tree, report, None, None)
}

/// What `make core-suites` asks for: both suites as they are or, with `chunk_rows`, in torture mode; or one of them.
pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    suite: Option<Suite>,
    chunk_rows: Option<u32>,
) -> Result<()> {
    let Some(sources) = Sources::find(report)? else {
        return Ok(());
    };
    let torture = chunk_rows.map(|chunk_rows| Torture { chunk_rows });
    for each in [Suite::Regression, Suite::Isolation] {
        if suite.is_none_or(|wanted| wanted == each) {
            sources.compare(tree, report, each, torture)?;
        }
    }
    Ok(())
}

impl Sources {
    pub fn find(report: &mut Report) -> Result<Option<Self>> {
        let version = server::pg_config("--version")?;
        let major = version
            .split(|c: char| !c.is_ascii_digit())
            .find(|w| !w.is_empty())
            .ok_or("pg_config --version shows no number")?;
        let directory = fs::canonicalize(".")?
            .join("build")
            .join(format!("core-{major}"));
        let fetched = Command::new("scripts/core-source")
            .arg(major)
            .arg(&directory)
            .stderr(Stdio::piped())
            .output()?;
        if !fetched.status.success() {
            report.skip(
                "core suites",
                String::from_utf8_lossy(&fetched.stderr).trim(),
            );
            return Ok(None);
        }
        let library = directory.join("regress.so");
        if !library.exists() {
            let include = format!("-I{}", server::pg_config("--includedir-server")?);
            server::run(
                Command::new("cc")
                    .args(["-shared", "-fPIC", "-O1", "-w", &include, "-o"])
                    .arg(&library)
                    .arg(directory.join("regress/regress.c")),
            )?;
        }
        Ok(Some(Self { directory }))
    }

    /// One suite on varve, against what it prints with heap. Returns how many outputs differ, the named exceptions among them.
    ///
    /// What heap prints is in the suite's sources. Heap runs where that does not explain an output: the sources may be of another minor
    /// version. In torture mode both run, at the same time: heap has settings and permutations of its own then.
    pub fn compare(
        &self,
        tree: &Arc<Tree>,
        report: &mut Report,
        suite: Suite,
        torture: Option<Torture>,
    ) -> Result<usize> {
        let page = fs::read_to_string(EXCEPTIONS).unwrap_or_default();
        let is_known = |name: &str| is_known(&page, suite, torture, name);
        let directory = self.directory.join(suite.name());
        let run = |method: &str| Run::start(self, tree, suite, method, torture);
        let beside = torture.map(|_| run("heap")).transpose()?;
        let varve = run(&heap_pair::access_method())?.finish()?;
        let mut heap = beside.map(Run::finish).transpose()?;
        let answers = |name: &str| match torture {
            None => answers::of(&directory, name),
            Some(_) => Ok(Vec::new()),
        };
        let names = match &heap {
            None => answers::tests_of(&fs::read_to_string(directory.join(suite.schedule()))?),
            Some(heap) => heap.names.clone(),
        };
        let program = program(suite, torture);
        if heap.is_none() {
            for name in &names {
                if !is_known(name) && !answers(name)?.contains(&varve.filtered(name)) {
                    println!("{program}: heap runs too, {name} is none of the sources' answers");
                    heap = Some(run("heap")?.finish()?);
                    break;
                }
            }
        }
        let mut differing = 0;
        for name in names {
            let ours = varve.filtered(&name);
            let mut theirs = answers(&name)?;
            theirs.extend(heap.as_ref().map(|heap| heap.filtered(&name)));
            let mut outcome = Ok(());
            if !theirs.contains(&ours) {
                differing += 1;
                let theirs = theirs.pop().unwrap_or_default();
                let kept = keep_difference(&program, &name, &theirs, &ours)?;
                if !is_known(&name) {
                    outcome = Err(format!("differs from heap, see {}", kept.display()).into());
                }
            }
            report.check(&format!("{program}/{name}"), outcome);
        }
        self.keep_count(&program, differing)?;
        Ok(differing)
    }
}

/// `core regress`, `core isolation torture 7`
fn program(suite: Suite, torture: Option<Torture>) -> String {
    let mode = torture.map(|t| format!(" torture {}", t.chunk_rows));
    format!("core {}{}", suite.name(), mode.unwrap_or_default())
}

/// Does the page of exceptions name this output? `torture/…` there stands for torture mode only, and what is named without
/// may differ in both.
fn is_known(page: &str, suite: Suite, torture: Option<Torture>, name: &str) -> bool {
    let named = |prefix: &str| page.contains(&format!("`{prefix}{}/{name}`", suite.name()));
    named("") || torture.is_some() && named("torture/")
}

/// One suite that runs in a cluster of its own.
struct Run {
    _cluster: Cluster,
    suite: Suite,
    results: PathBuf,
    driver: Child,
}

/// What a run printed.
struct Printed {
    results: PathBuf,
    /// The tests that printed something.
    names: Vec<String>,
}

impl Run {
    fn start(
        sources: &Sources,
        tree: &Arc<Tree>,
        suite: Suite,
        method: &str,
        torture: Option<Torture>,
    ) -> Result<Self> {
        let cluster = Cluster::create(
            tree,
            &["max_prepared_transactions = 2", "shared_buffers = '128MB'"],
        )?;
        // The server reads and writes files of the suite: they must be its account's.
        let home = tree.directory(suite.name())?;
        tree.copy_for_server(&sources.directory.join(suite.name()), &home)?;
        if torture.is_some() && suite == Suite::Isolation {
            leave_tids_out(&home.join("specs"))?;
        }
        let libraries = home.join("libraries");
        fs::create_dir(&libraries)?;
        fs::copy(
            sources.directory.join("regress.so"),
            libraries.join("regress.so"),
        )?;
        for library in ["autoinc.so", "refint.so"] {
            let installed = tree.lib().join(library);
            if installed.exists() {
                fs::copy(installed, libraries.join(library))?;
            }
        }
        let (program, database) = match suite {
            Suite::Regression => ("regress/pg_regress", "regression"),
            Suite::Isolation => ("isolation/pg_isolation_regress", "isolation_regression"),
        };
        prepare_database(&cluster, database, method, torture.is_some())?;
        let driver = tree
            .test_driver_as_server(program)
            .arg(format!("--inputdir={}", home.display()))
            .arg(format!("--outputdir={}", home.display()))
            .arg(format!("--dlpath={}", libraries.display()))
            .arg(format!(
                "--schedule={}",
                home.join(suite.schedule()).display()
            ))
            .arg(format!("--bindir={}", tree.bin().display()))
            .arg(format!("--host={}", cluster.host().display()))
            .args(["--use-existing", "--user=postgres", "--max-connections=6"])
            .arg(format!("--dbname={database}"))
            .env(
                "PGOPTIONS",
                torture
                    .map(|torture| torture.settings_of(suite))
                    .unwrap_or_default(),
            )
            // Both names of the setting of isolationtester: up to 15, and from 16 on, where it waits for twice as long.
            .env("PGISOLATIONTIMEOUT", STEP_SECONDS.to_string())
            .env("PG_TEST_TIMEOUT_DEFAULT", (STEP_SECONDS / 2).to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self {
            _cluster: cluster,
            suite,
            results: home.join("results"),
            driver,
        })
    }

    /// Waits for its end.
    fn finish(self) -> Result<Printed> {
        let output = self.driver.wait_with_output()?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.results)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "out") {
                names.extend(path.file_stem().map(|s| s.to_string_lossy().into_owned()));
            }
        }
        if names.is_empty() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} did not run: {reason}", self.suite.name()).into());
        }
        names.sort();
        Ok(Printed {
            results: self.results,
            names,
        })
    }
}

impl Printed {
    /// Nothing where the test wrote nothing, which differs from anything.
    fn filtered(&self, name: &str) -> String {
        let bytes = fs::read(self.results.join(format!("{name}.out"))).unwrap_or_default();
        filtered(&String::from_utf8_lossy(&bytes))
    }
}

/// Takes permutations that find rows by their TIDs, which are others for compressed rows, out of the specs.
fn leave_tids_out(specs: &Path) -> Result<()> {
    for entry in fs::read_dir(specs)? {
        let path = entry?.path();
        fs::write(&path, without_tids(&fs::read_to_string(&path)?))?;
    }
    Ok(())
}

fn without_tids(spec: &str) -> String {
    let finds_by_tid = |line: &&str| {
        ["WHERE ctid =", "WHERE ctid BETWEEN"]
            .iter()
            .any(|condition| line.contains(condition))
    };
    let steps: Vec<&str> = spec
        .lines()
        .filter(finds_by_tid)
        .filter_map(|line| line.strip_prefix("step ")?.split_whitespace().next())
        .collect();
    let stays = |line: &&str| {
        !line.starts_with("permutation")
            || !line.split_whitespace().any(|word| steps.contains(&word))
    };
    let kept: Vec<&str> = spec.lines().filter(stays).collect();
    kept.join("\n") + "\n"
}

/// The database that the driver would make, but with the extension and the access method from the first connection on.
fn prepare_database(cluster: &Cluster, name: &str, method: &str, torture: bool) -> Result<()> {
    let mut client = cluster.connect("postgres")?;
    client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE = template0"))?;
    cluster
        .connect(name)?
        .batch_execute("CREATE EXTENSION varve")?;
    let settings = [
        ("lc_messages", "C"),
        ("lc_monetary", "C"),
        ("lc_numeric", "C"),
        ("lc_time", "C"),
        ("bytea_output", "hex"),
        ("timezone_abbreviations", "Default"),
        ("default_table_access_method", method),
        (
            "varve.debug_compress",
            if torture { "torture" } else { "off" },
        ),
        ("statement_timeout", &format!("{STATEMENT_SECONDS}s")),
    ];
    for (setting, value) in settings {
        client.batch_execute(&format!("ALTER DATABASE {name} SET {setting} = '{value}'"))?;
    }
    Ok(())
}

/// Writes both filtered outputs and their diff below build/core-differences.
fn keep_difference(program: &str, name: &str, heap: &str, varve: &str) -> Result<PathBuf> {
    let directory = Path::new("build/core-differences");
    fs::create_dir_all(directory)?;
    let program = program.replace(' ', "-");
    let file = |kind: &str| directory.join(format!("{program}-{name}.{kind}"));
    fs::write(file("heap"), heap)?;
    fs::write(file("varve"), varve)?;
    let diff = Command::new("diff")
        .arg("-u")
        .arg(file("heap"))
        .arg(file("varve"))
        .output()?;
    fs::write(file("diff"), &diff.stdout)?;
    Ok(file("diff"))
}

#[cfg(test)]
mod tests {
    use super::filter::filtered;
    use super::without_tids;

    #[test]
    fn permutations_that_name_tids_go() {
        let step = "step a { UPDATE t SET b = 1 WHERE ctid = '(0,1)'; }\nstep c { COMMIT; }\n";
        let spec = format!("{step}permutation a c\npermutation c\n");
        assert_eq!(without_tids(&spec), format!("{step}permutation c\n"));
    }

    #[test]
    fn rows_without_order_by_are_sorted_and_plans_dropped() {
        let unordered = "select a from t;\n a \n---\n 2\n 1\n(2 rows)\n";
        let other = "select a from t;\n a \n---\n 1\n 2\n(2 rows)\n";
        assert_eq!(filtered(unordered), filtered(other));
        let ordered = |text: &str| filtered(&text.replace("from t", "from t order by a desc"));
        assert_ne!(ordered(unordered), ordered(other));
        let plan = |node: &str| {
            filtered(&format!(
                "explain select 1;\n QUERY PLAN \n------------\n {node}\n(1 row)\nselect 2;\n"
            ))
        };
        assert_eq!(plan("Seq Scan"), plan("Custom Scan"));
        assert!(plan("Seq Scan").contains("select 2"));
    }

    #[test]
    fn wrong_rows_and_errors_stay_visible() {
        let right = "select a from t;\n a \n---\n 1\n(1 row)\nERROR:  no\n";
        assert_ne!(filtered(right), filtered(&right.replace(" 1\n", " 7\n")));
        assert_ne!(
            filtered(right),
            filtered(&right.replace("ERROR:  no\n", ""))
        );
        assert_eq!(
            filtered("DETAIL: row (0,1) moved"),
            filtered("DETAIL: row (7,22) moved")
        );
    }
}
