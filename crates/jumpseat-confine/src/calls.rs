//! Which system calls, by seccomp.
//!
//! Two kinds of filter. Where no programs are started, a list of what is needed: the rest does not exist (`ENOSYS`, which C
//! libraries take as an old kernel and try something else). Where programs are, which have it from here and may be any,
//! a list of what no program of this kind has any business with (`EPERM`).

use nix::libc::{self, c_long};
use seccompiler::{SeccompAction, TargetArch};

use crate::filter::{Argument, Rules, When, program};

/// System calls a process keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// All, and why.
    Any(&'static str),
    /// Those of an agent with threads, files and sockets, which starts no program.
    Agent,
    /// Those of programs an agent starts, too: all but what changes the system or looks into other processes.
    AgentWithPrograms,
    /// Those of one thread that opens files in a directory and hands them over.
    Helper,
    /// Those of one thread that holds sockets and passes them on.
    Keeper,
}

pub(crate) fn restrict(calls: Calls) -> Result<String, String> {
    let (rules, on_others, on_match, told) = match calls {
        Calls::Any(why) => return Err(format!("not restricted, {why}")),
        Calls::Agent => {
            let mut rules = listed(&[FILES, EVERYBODY, AGENT]);
            rules.extend(LIMITED.iter().map(|(call, argument)| (*call, When::Argument(*argument))));
            let told = format!("{} of them", rules.len());
            (rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow, told)
        }
        Calls::Helper => {
            let rules = listed(&[FILES, EVERYBODY, HELPER]);
            let told = format!("{} of them", rules.len());
            (rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow, told)
        }
        Calls::Keeper => {
            let mut rules = listed(&[FILES, EVERYBODY, KEEPER]);
            rules.insert(libc::SYS_socket, When::Argument(UNIX_ONLY));
            let told = format!("{} of them", rules.len());
            (rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow, told)
        }
        Calls::AgentWithPrograms => {
            let rules = listed(&[OF_THE_SYSTEM]);
            let told = format!("all but {}, as programs are started", rules.len());
            (rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32), told)
        }
    };
    let architecture: TargetArch = std::env::consts::ARCH
        .try_into()
        .map_err(|_| format!("no list of system calls for {}", std::env::consts::ARCH))?;
    let program = program(&rules, on_match, on_others, architecture).map_err(|error| error.to_string())?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())?;
    Ok(told)
}

/// Whatever their arguments are.
fn listed(lists: &[&[c_long]]) -> Rules {
    lists.iter().flat_map(|list| list.iter()).map(|call| (*call, When::Always)).collect()
}

/// What an agent has by arguments.
const LIMITED: &[(c_long, Argument)] = &[
    (
        libc::SYS_socket,
        any_of(
            0,
            &[libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32, libc::AF_NETLINK as u32],
        ),
    ),
    // Of terminals their size; of sockets and files what is there, and whether to wait.
    (
        libc::SYS_ioctl,
        any_of(
            1,
            &[
                libc::TCGETS as u32,
                libc::TIOCGWINSZ as u32,
                libc::FIONBIO as u32,
                libc::FIONREAD as u32,
                libc::FIOCLEX as u32,
            ],
        ),
    ),
    // Threads, but no processes; clone3 is not on the list, as its flags cannot be seen.
    (libc::SYS_clone, Argument { place: 0, mask: THREAD, values: &[THREAD] }),
];

const THREAD: u32 = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u32;
const UNIX_ONLY: Argument = any_of(0, &[libc::AF_UNIX as u32]);

const fn any_of(place: u8, values: &'static [u32]) -> Argument {
    Argument { place, mask: u32::MAX, values }
}

/// Memory, time, and the end.
const EVERYBODY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_sched_yield,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Descriptors, files and directories.
const FILES: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// What the helper has besides: the end of a file system that it has mounted.
const HELPER: &[c_long] = &[libc::SYS_umount2];

/// What a keeper has besides: a Unix socket, which it makes and listens on.
const KEEPER: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_ppoll,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_renameat,
    libc::SYS_renameat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

/// Sockets, polls, threads, files that are replaced, signals that are read.
const AGENT: &[c_long] = &[
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_accept,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_pipe2,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    // Newer architectures have the second one only.
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_utimensat,
    libc::SYS_statfs,
    libc::SYS_copy_file_range,
    libc::SYS_getcwd,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_getrlimit,
    libc::SYS_prlimit64,
    libc::SYS_getppid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getgroups,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_getcpu,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_prctl,
    libc::SYS_capget,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_kill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_fadvise64,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getpgrp,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
];

/// What changes the system, or looks into other processes, or has been a way into the kernel more often than others.
const OF_THE_SYSTEM: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];
