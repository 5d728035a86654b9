//! A reactor as a process of its own: how it is started, what the system says of it, and how it is stopped.

mod stage;

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
pub(crate) use stage::Stage;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Killed on drop, as by a crash.
pub(crate) struct Process {
    child: Child,
    reading: Option<JoinHandle<()>>,
}

/// What a process takes of the machine.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// Processor time since it began.
    pub(crate) cpu: Duration,
    pub(crate) resident_megabytes: f64,
    pub(crate) descriptors: usize,
}

impl Process {
    /// Returns when it has said on standard error that it is ready. `heard` gets each line of its standard output.
    pub(crate) fn start(command: &mut Command, heard: impl FnMut(String) + Send + 'static) -> Outcome<Self> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut process = Process { child, reading: None };
        let mut complaints = stderr
            .into_iter()
            .flat_map(|stderr| BufReader::new(stderr).lines().map_while(Result::ok));
        if !complaints.any(|line| line.contains("ready")) {
            return Err("a reactor did not start".into());
        }
        // Read on, or the pipe fills up.
        thread::spawn(move || complaints.for_each(drop));
        let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
        process.reading = Some(thread::spawn(move || lines.map_while(Result::ok).for_each(heard)));
        Ok(process)
    }

    /// Asks it to stop, and returns when it has ended and its last line was heard.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        kill(Pid::from_raw(self.child.id().try_into()?), Signal::SIGTERM)?;
        let status = self.child.wait()?;
        if let Some(reading) = self.reading.take() {
            reading.join().map_err(|_| "whoever read a reactor's lines panicked")?;
        }
        match status.success() {
            true => Ok(()),
            false => Err(format!("a reactor ended with {status}").into()),
        }
    }

    /// As it is now, by `/proc`.
    pub(crate) fn usage(&self) -> Outcome<Usage> {
        let directory = format!("/proc/{}", self.child.id());
        let stat = fs::read_to_string(format!("{directory}/stat"))?;
        // After the name, which may contain anything: the 12th and 13th are user and system time, in hundredths.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        let status = fs::read_to_string(format!("{directory}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: f64 = resident.ok_or("no VmRSS")?.trim().trim_end_matches(" kB").parse()?;
        Ok(Usage {
            cpu: Duration::from_millis(ticks * 10),
            resident_megabytes: kilobytes / 1024.0,
            descriptors: fs::read_dir(format!("{directory}/fd"))?.count(),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What comes of it cannot matter any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
