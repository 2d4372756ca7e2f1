//! Figures of one run: rate, latencies, and the CPU time of both sides. One JSON line.

use std::fs;
use std::time::{Duration, Instant};

/// Clock ticks of `/proc` in a second, on every Linux there is.
const TICKS: f64 = 100.0;

/// A run under way.
pub struct Run {
    server: u32,
    since: Instant,
    server_cpu_s: f64,
    own_cpu_s: f64,
}

impl Run {
    pub fn start(server: u32) -> Run {
        Run { server, since: Instant::now(), server_cpu_s: cpu_s(server), own_cpu_s: cpu_s(std::process::id()) }
    }

    /// Prints the line.
    pub fn finish(self, test: &str, operations: u64, mut latencies: Vec<Duration>, extra: &[(&str, f64)]) {
        let secs = self.since.elapsed().as_secs_f64();
        let server = cpu_s(self.server) - self.server_cpu_s;
        let own = cpu_s(std::process::id()) - self.own_cpu_s;
        latencies.sort_unstable();
        let us = |share: f64| {
            let index = (latencies.len().saturating_sub(1) as f64 * share).round() as usize;
            latencies.get(index).map_or(0, Duration::as_micros)
        };
        let mut line = format!(
            "{{\"test\":\"{test}\",\"ops\":{operations},\"secs\":{secs:.2},\"ops_per_s\":{:.0},\"p50_us\":{},\"p99_us\":{},\
             \"max_us\":{},\"srv_cpu_s\":{server:.2},\"srv_us_per_op\":{:.2},\"load_cpu_s\":{own:.2}",
            operations as f64 / secs,
            us(0.5),
            us(0.99),
            us(1.0),
            server * 1e6 / operations.max(1) as f64
        );
        for (name, value) in extra {
            line.push_str(&format!(",\"{name}\":{value:.2}"));
        }
        println!("{line}}}");
    }
}

/// CPU time that a process has used; zero where the system does not tell.
fn cpu_s(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let words: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |index: usize| words.get(index).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS
}
