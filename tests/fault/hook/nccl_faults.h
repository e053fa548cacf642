/* nccl_faults.h - makes NCCL itself fail: programs are linked with --wrap for yk_nccl_load. */
#ifndef TESTS_FAULT_HOOK_NCCL_FAULTS_H
#define TESTS_FAULT_HOOK_NCCL_FAULTS_H

/* nccl_fault_bad_peer - the calling thread's next send is addressed to a rank that does not exist. */
void nccl_fault_bad_peer(void);

#endif
