#include "hone/train/rl/rewards/sandbox_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace hone::train::rl {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
constexpr uint32_t kForks[] = {SYS_fork, SYS_vfork};
#else
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr uint32_t kForks[] = {SYS_clone3};  // which is rejected below in any case
#endif
constexpr uint32_t kOtherAbi = 0x40000000;  // x32's system call numbers start there; other architectures have none

constexpr uint32_t kRefused[] = {SYS_socket,
                                 SYS_socketpair,
                                 SYS_ptrace,
                                 SYS_process_vm_readv,
                                 SYS_process_vm_writev,
                                 SYS_mount,
                                 SYS_umount2,
                                 SYS_pivot_root,
                                 SYS_chroot,
                                 SYS_unshare,
                                 SYS_setns,
                                 SYS_bpf,
                                 SYS_keyctl,
                                 SYS_add_key,
                                 SYS_request_key,
                                 SYS_perf_event_open,
                                 SYS_io_uring_setup,
                                 SYS_userfaultfd,
                                 SYS_open_by_handle_at,
                                 SYS_memfd_create,
                                 SYS_shmget,
                                 SYS_msgget,
                                 SYS_semget,
                                 SYS_mq_open,
                                 SYS_kexec_load,
                                 SYS_init_module,
                                 SYS_finit_module,
                                 SYS_reboot,
                                 SYS_swapon,
                                 SYS_acct,
                                 SYS_quotactl,
                                 SYS_personality};

constexpr uint32_t refused(int code) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(code); }

}  // namespace

std::string sandbox_filter() {
  std::vector<sock_filter> filter;
  const auto load = [&](size_t offset) { filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset))); };
  const auto return_action = [&](uint32_t action) { filter.push_back(BPF_STMT(BPF_RET | BPF_K, action)); };
  const auto refuse = [&](uint32_t call, int code) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    return_action(refused(code));
  };
  load(offsetof(seccomp_data, arch));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  return_action(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(seccomp_data, nr));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kOtherAbi, 0, 1));
  return_action(SECCOMP_RET_KILL_PROCESS);
  refuse(SYS_clone3, ENOSYS);  // its flags are behind a pointer, which a filter cannot read: libraries fall back to clone
  for (auto call : kForks) refuse(call, EPERM);
  for (auto call : kRefused) refuse(call, EPERM);
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
  load(offsetof(seccomp_data, args[0]));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
  return_action(refused(EPERM));
  return_action(SECCOMP_RET_ALLOW);
  return std::string(reinterpret_cast<const char*>(filter.data()), filter.size() * sizeof(sock_filter));
}

}  // namespace hone::train::rl
