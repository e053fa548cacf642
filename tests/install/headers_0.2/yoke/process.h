/* process.h - what a program does once, at the beginning of main. */
#ifndef YK_PROCESS_H
#define YK_PROCESS_H

#ifdef __cplusplus
extern "C" {
#endif

/* yk_process_init - prepare the process: call it first in main, while there is one thread, since it changes the
 *   environment: NCCL_NVLS_ENABLE becomes 0, so that NCCL, which reads the variable when it is first used, keeps NVLink
 *   multicast off. Several ranks on GPUs are refused in a process where the variable is not 0. */
void yk_process_init(void);

#ifdef __cplusplus
}
#endif
#endif
