//! Standard streams that give all or fail: on a pipe that does not block, a write that finds it full waits for the reader.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// An unbuffered stream.
pub struct Patient<T: AsFd>(pub T);

impl<T: AsFd> Write for Patient<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, bytes) {
                Ok(n_bytes) => return Ok(n_bytes),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    // An error of it shows at the next write.
                    let _ = poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Goal: nothing is lost on a pipe that is full. Method: more than any pipe holds, and a reader that begins late.
    #[test]
    fn a_pipe_that_does_not_block_gets_all() {
        let (mut reader, writer) = io::pipe().expect("has one");
        rustix::io::ioctl_fionbio(&writer, true).expect("is a pipe");
        let text = vec![b'x'; 3 << 20];
        let length = text.len();
        let writes = std::thread::spawn(move || Patient(writer).write_all(&text));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("readable");
        writes.join().expect("no panic").expect("all is written");
        assert_eq!(read.len(), length);
    }
}
