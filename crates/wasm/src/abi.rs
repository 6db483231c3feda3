//! What the script calls: three buffers in, one text out. There are no imports, so that nothing in here reaches out of the tab.
//!
//! ```text
//!   input(slot, length) -> address     the script writes page, query, file name or file there
//!   ask(kind) -> length                0: controls of a page, 1: an answer; 2: the same with the dropped file,
//!                                      3: the next step of an answer that takes some
//!   file(nth) -> length                a file to take away, its name in a line before it; 0: there are no more
//!   output() -> address                where the text is, until the next call
//! ```
//! A file goes straight into this memory, once; wasm-bindgen would hold a second copy of it.
#![expect(unsafe_code, reason = "exported names are unsafe attributes; no pointer is followed here")]

use std::cell::RefCell;

use crate::Dropped;

thread_local! {
    static INPUT: RefCell<[Vec<u8>; 4]> = const { RefCell::new([const { Vec::new() }; 4]) };
    static SESSION: RefCell<Option<crate::Session>> = const { RefCell::new(None) };
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes slot 0 (page), 1 (query), 2 (file name) or 3 (file) `length` bytes long; 0 if there is no such slot or memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn input(slot: usize, length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|slots| {
        let Some(bytes) = slots.get_mut(slot) else { return std::ptr::null_mut() };
        *bytes = Vec::new();
        if bytes.try_reserve_exact(length).is_err() {
            return std::ptr::null_mut();
        }
        bytes.resize(length, 0);
        bytes.as_mut_ptr()
    })
}

/// Answers; the length of the text.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ask(kind: u32) -> usize {
    let answer = if kind == 3 {
        SESSION.with_borrow_mut(|session| match session {
            Some(session) => crate::step(session),
            None => crate::answer("", "", None),
        })
    } else {
        INPUT.with_borrow_mut(|slots| {
            // The answer keeps the file, which may be most of the memory.
            let bytes = std::mem::take(&mut slots[3]);
            let text = |slot: usize| String::from_utf8_lossy(&slots[slot]);
            if kind == 0 {
                return crate::controls(&text(0));
            }
            let dropped = (kind == 2).then(|| Dropped { name: text(2).into_owned(), bytes });
            SESSION.set(None);
            let (answer, session) = crate::begin(&text(0), &text(1), dropped);
            SESSION.set(session);
            answer
        })
    };
    let length = answer.len();
    OUTPUT.set(answer.into_bytes());
    length
}

/// Makes the nth file of the answer that has just ended; its length with its name, 0 if there is none.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn file(nth: usize) -> usize {
    let found = SESSION.with_borrow(|session| session.as_ref().and_then(|session| session.file(nth)));
    let bytes = found.map_or_else(Vec::new, |(name, bytes)| [name.as_bytes(), b"\n", &bytes].concat());
    let length = bytes.len();
    OUTPUT.set(bytes);
    length
}

/// Where the text of the last answer is.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|bytes| bytes.as_ptr())
}
