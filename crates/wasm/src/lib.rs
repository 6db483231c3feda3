//! The laboratory in a page: a page's name and its parameters in, pictures, numbers and words out.
//!
//! ```text
//!   load-tracking.html#run_us=4000&period_us=16000          the link is the state
//!        │ page, query, dropped file
//!        ▼
//!   answer() ── query.rs: checked against the page's controls ── pages/*.rs ── answer.rs ──► JSON ──► canvas, table
//! ```
//! The same function answers natively and in the browser, and both answers are the same bytes: a test compares them.
//! What a page shows, which parameters it has and what their limits are stands here; the script draws what comes back.
//! Limits are such that an answer takes milliseconds; what takes longer runs in a worker that can be ended.
//!
//! Not here: files on disk, clocks, the network. A page has none of them.

#[cfg(target_arch = "wasm32")]
mod abi;
pub mod answer;
pub mod pages;
pub mod query;

use opplab_model::tree::{Node, to_json};

pub use pages::{PAGES, Page};

/// What was dropped on a page.
#[derive(Debug, Clone, Copy)]
pub struct Dropped<'a> {
    /// The file's name, for messages and for its form.
    pub name: &'a str,
    /// What is in it.
    pub bytes: &'a [u8],
}

/// Answers a page's question as JSON. What is wrong with the parameters or the file is an answer, too: `{"error": ...}`.
pub fn answer(page: &str, query: &str, dropped: Option<Dropped<'_>>) -> String {
    let found = PAGES.iter().find(|known| known.name == page).ok_or_else(|| {
        let near = opplab_model::error::nearest(page, PAGES.iter().map(|known| known.name));
        format!("there is no page `{}`{}", query::plain(page), query::hint(near))
    });
    let answered = found.and_then(|page| page.answer(query, dropped));
    to_json(&answered.unwrap_or_else(|message| Node::table([("error", Some(Node::str(message)))])))
}

/// The controls of a page as JSON: what the script makes its form of.
pub fn controls(page: &str) -> String {
    let controls = PAGES.iter().find(|known| known.name == page).map(|page| page.describe());
    to_json(&controls.unwrap_or_else(|| Node::table([("error", Some(Node::str("there is no such page")))])))
}
