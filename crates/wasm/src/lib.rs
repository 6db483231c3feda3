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
mod machines;
pub mod pages;
pub mod query;

use opplab_model::tree::{Node, to_json};

pub use pages::{Begun, PAGES, Page, Session};

/// What was dropped on a page.
#[derive(Debug, Clone)]
pub struct Dropped {
    /// The file's name, for messages and for its form.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Begins to answer a page's question: JSON of what is known at once, and the steps that are left, if there are any.
/// What is wrong with the parameters or the file is an answer, too: `{"error": ...}`.
pub fn begin(page: &str, query: &str, dropped: Option<Dropped>) -> (String, Option<Session>) {
    let found = PAGES.iter().find(|known| known.name == page).ok_or_else(|| {
        let near = opplab_model::error::nearest(page, PAGES.iter().map(|known| known.name));
        format!("there is no page `{}`{}", query::plain(page), query::hint(near))
    });
    match found.and_then(|page| page.begin(query, dropped)) {
        Ok(Begun::Answer(node)) => (to_json(&node), None),
        Ok(Begun::Session(session)) => (to_json(&session.answer()), Some(session)),
        Err(message) => (refusal(message), None),
    }
}

/// Takes the next step of an answer; JSON of what is known then.
pub fn step(session: &mut Session) -> String {
    match session.step() {
        Ok(()) => to_json(&session.answer()),
        Err(message) => refusal(message),
    }
}

/// The whole answer, all steps taken.
pub fn answer(page: &str, query: &str, dropped: Option<Dropped>) -> String {
    let (mut text, session) = begin(page, query, dropped);
    if let Some(mut session) = session {
        while !session.is_done() {
            if let Err(message) = session.step() {
                return refusal(message);
            }
        }
        text = to_json(&session.answer());
    }
    text
}

fn refusal(message: String) -> String {
    to_json(&Node::table([("error", Some(Node::str(message)))]))
}

/// The controls of a page as JSON: what the script makes its form of.
pub fn controls(page: &str) -> String {
    let controls = PAGES.iter().find(|known| known.name == page).map(|page| page.describe());
    to_json(&controls.unwrap_or_else(|| Node::table([("error", Some(Node::str("there is no such page")))])))
}
