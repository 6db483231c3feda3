//! `trace.dat` version 6 (trace-cmd.dat.v6(5)) around ring-buffer pages just as the kernel gave them.
//!
//! Nothing is decoded: formats, names and pages are copied, so that what the kernel recorded is what readers get.
//! (Crate `trace` writes such files from decoded events; the agent does without a decoder.)

use std::io::{self, Read, Seek, SeekFrom, Write};

/// Alignment of the pages in the file, at least.
const PAGE: u64 = 4096;

/// What stands before the pages.
#[derive(Debug, Default)]
pub struct Head {
    /// `events/header_page`.
    pub header_page: String,
    /// `events/header_event`.
    pub header_event: String,
    /// Format files by group.
    pub systems: Vec<(String, Vec<String>)>,
    /// `printk_formats`.
    pub printk_formats: String,
    /// `saved_cmdlines`: a pid and a name a line.
    pub saved_cmdlines: String,
    /// The trace clock's name.
    pub clock: String,
    /// `uname -a`.
    pub uname: String,
    /// `per_cpu/cpuN/stats` of each CPU.
    pub cpu_stats: Vec<String>,
    /// Bytes of a ring-buffer page.
    pub page_size: u32,
}

fn sized(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_ne_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Writes the file; `cpus` are the pages of each CPU, read from their beginning.
///
/// # Errors
/// What reading or writing failed of.
pub fn write<R: Read + Seek>(head: &Head, cpus: &mut [R], out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = b"\x17\x08\x44tracing6\0".to_vec();
    bytes.push(u8::from(cfg!(target_endian = "big")));
    bytes.push(size_of::<usize>() as u8);
    bytes.extend_from_slice(&head.page_size.to_ne_bytes());
    bytes.extend_from_slice(b"header_page\0");
    sized(&mut bytes, &head.header_page);
    bytes.extend_from_slice(b"header_event\0");
    sized(&mut bytes, &head.header_event);
    // None of ftrace's own events.
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(&(head.systems.len() as u32).to_ne_bytes());
    for (system, formats) in &head.systems {
        bytes.extend_from_slice(system.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&(formats.len() as u32).to_ne_bytes());
        formats.iter().for_each(|format| sized(&mut bytes, format));
    }
    // No kallsyms.
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(&(head.printk_formats.len() as u32).to_ne_bytes());
    bytes.extend_from_slice(head.printk_formats.as_bytes());
    sized(&mut bytes, &head.saved_cmdlines);
    bytes.extend_from_slice(&(cpus.len() as u32).to_ne_bytes());
    bytes.extend_from_slice(b"options  \0");
    let mut option = |id: u16, text: &str| {
        bytes.extend_from_slice(&id.to_ne_bytes());
        bytes.extend_from_slice(&(text.len() as u32 + 1).to_ne_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    };
    // CPUSTAT, TRACECLOCK, UNAME.
    head.cpu_stats.iter().for_each(|stats| option(2, stats));
    option(4, &format!("[{}]", head.clock));
    option(5, &head.uname);
    bytes.extend_from_slice(&0u16.to_ne_bytes());
    bytes.extend_from_slice(b"flyrecord\0");
    let align = PAGE.max(u64::from(head.page_size));
    let mut offset = (bytes.len() as u64 + 16 * cpus.len() as u64).next_multiple_of(align);
    let start = offset;
    for cpu in cpus.iter_mut() {
        let length = cpu.seek(SeekFrom::End(0))?;
        cpu.seek(SeekFrom::Start(0))?;
        bytes.extend_from_slice(&offset.to_ne_bytes());
        bytes.extend_from_slice(&length.to_ne_bytes());
        offset = (offset + length).next_multiple_of(align);
    }
    bytes.resize(start as usize, 0);
    out.write_all(&bytes)?;
    for cpu in cpus {
        let length = io::copy(cpu, out)?;
        let fill = length.next_multiple_of(align) - length;
        out.write_all(&vec![0; fill as usize])?;
    }
    Ok(())
}
