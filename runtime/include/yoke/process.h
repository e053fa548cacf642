/* process.h - prepares a process, once, at the beginning of main. */
#ifndef YK_PROCESS_H
#define YK_PROCESS_H

#ifdef __cplusplus
extern "C" {
#endif

/* yk_process_init - prepare the process. Call this function first in main, while there is one thread, since it changes
 *   the environment: NCCL_NVLS_ENABLE becomes 0, so that NCCL, which reads the variable at first use, keeps NVLink
 *   multicast off. Several ranks on GPUs are refused in a process in which the variable is not 0. */
void yk_process_init(void);

#ifdef __cplusplus
}
#endif
#endif
