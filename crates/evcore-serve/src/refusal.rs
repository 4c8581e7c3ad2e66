//! Refuses settings that would have no effect on the kind of workers that a server has.

use std::io;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workers {
    Processes,
    /// The workers of `Server::run_parts`.
    Parts,
    Threads,
    /// This process serves (`Server::run_here`).
    Here,
}

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) hands_over: bool,
    pub(crate) has_stores: bool,
    pub(crate) has_hang_timeout: bool,
}

pub(crate) fn refuse(workers: Workers, settings: Settings) -> io::Result<()> {
    let refusal = match workers {
        Workers::Processes if settings.has_stores && !settings.hands_over => {
            "Server::descriptor_store needs Server::handover, because the store gives the \
             connections to another worker: call both"
        }
        Workers::Parts | Workers::Threads | Workers::Here if settings.has_stores => {
            "a descriptor store is for the worker processes of Server::run"
        }
        Workers::Threads | Workers::Here if settings.has_hang_timeout => {
            "hang_timeout is for worker processes that have a master: a thread cannot be killed"
        }
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, refusal))
}

#[cfg(test)]
mod tests {
    use crate::server::Server;

    #[test]
    fn settings_without_effect_are_refused() {
        let keeps = || Server::new(2).descriptor_store(b"");
        let refused = keeps().run(|_| Ok::<_, String>(())).unwrap_err();
        assert!(refused.to_string().contains("needs Server::handover"));
        let for_processes = [
            keeps().run_threads(|_| Ok::<_, String>(())).map(drop),
            keeps().run_parts(|_| Ok::<_, String>(())).map(drop),
            keeps().run_here(|_| Ok::<_, String>(())),
        ];
        for refused in for_processes {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("for the worker processes"), "{refused}");
        }
        let watched = || Server::new(2).hang_timeout(std::time::Duration::from_secs(1));
        let for_processes = [
            watched().run_threads(|_| Ok::<_, String>(())).map(drop),
            watched().run_here(|_| Ok::<_, String>(())),
        ];
        for refused in for_processes {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("a thread cannot be killed"), "{refused}");
        }
    }
}
