//! Makes system calls fail in a thread, and in the threads and processes that it starts, by a
//! seccomp filter (Linux).

#![allow(unsafe_code, reason = "a seccomp filter is installed")]

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_int, c_long};

/// The offsets in `seccomp_data` of the call's number, and of the low half of `mmap`'s flags.
const NUMBER_AT: u32 = 0;
const MMAP_FLAGS_AT: u32 = if cfg!(target_endian = "little") {
    40
} else {
    44
};

/// Runs `claim` in a thread in which `call` fails with `errno`. The call also fails in the threads
/// and processes that this thread starts. If `call` is `mmap`, only calls for shared memory fail.
///
/// # Panics
///
/// If `claim` panics, or if the kernel refuses the filter.
pub fn without<T: Send>(call: c_long, errno: c_int, claim: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| {
        let claim = threads.spawn(|| {
            install(&mut filter(call, errno));
            claim()
        });
        claim.join().expect("the claim holds")
    })
}

fn filter(call: c_long, errno: c_int) -> Vec<libc::sock_filter> {
    let number = u32::try_from(call).expect("a call");
    let errno = u32::try_from(errno).expect("an error");
    let is_mmap = call == libc::SYS_mmap;
    let mut filter = vec![
        step(BPF_LD | BPF_W | BPF_ABS, NUMBER_AT, 0),
        step(
            BPF_JMP | BPF_JEQ | BPF_K,
            number,
            if is_mmap { 3 } else { 1 },
        ),
    ];
    if is_mmap {
        let shared = u32::try_from(libc::MAP_SHARED).expect("a flag");
        filter.push(step(BPF_LD | BPF_W | BPF_ABS, MMAP_FLAGS_AT, 0));
        filter.push(step(BPF_JMP | BPF_JSET | BPF_K, shared, 1));
    }
    filter.push(step(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | errno, 0));
    filter.push(step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    filter
}

fn step(code: u32, k: u32, jump_if_not: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: u16::try_from(code).expect("an instruction"),
        jt: 0,
        jf: jump_if_not,
        k,
    }
}

fn install(filter: &mut [libc::sock_filter]) {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).expect("a few steps"),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: no pointer is passed. The call only keeps this thread from gaining privileges.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0, "prctl(PR_SET_NO_NEW_PRIVS)");
    // SAFETY: `program` points to the instructions of `filter`, which outlives the call.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(result, 0, "prctl(PR_SET_SECCOMP)");
}
