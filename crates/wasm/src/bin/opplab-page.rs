//! What the pages answer, without a browser: a line `page#query` in, a line of JSON out.
//!
//! `opplab-page FILE` answers as if the file had been dropped on the page. `opplab-page pages` lists the pages with their controls. The site is built with it, and tests compare its bytes with a browser's.

use std::io::{BufRead, Write};

use opplab_wasm::{Dropped, PAGES, answer, controls};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if std::env::args().nth(1).as_deref() == Some("pages") {
        return PAGES.iter().try_for_each(|page| writeln!(out, "{}", controls(page.name)));
    }
    let file = std::env::args().nth(1);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (page, query) = line.split_once('#').unwrap_or((&line, ""));
        let dropped = match &file {
            Some(path) => {
                let name = std::path::Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
                Some(Dropped { name: name.unwrap_or_default(), bytes: std::fs::read(path)? })
            }
            None => None,
        };
        writeln!(out, "{}", answer(page, query, dropped))?;
    }
    Ok(())
}
