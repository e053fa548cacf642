/* supervise.h - under mpirun, a process that starts the program once more, and again if a signal ends that: MPI's
 * processes must all live until the end of a run. */
#ifndef YK_CLI_SUPERVISE_H
#define YK_CLI_SUPERVISE_H

/* yk_cli_supervise - runs this program with the subcommand and arguments in a child, as a process of a run over TCP,
 *   and passes SIGTERM and SIGINT on. If a signal ends the child otherwise, it is started again, up to 5 times within a
 *   minute. The child ends with this process. master_host: as in yk_mpi_parent_start. Returns the exit code. Thread:
 *   the only one. */
int yk_cli_supervise(const char *subcommand, int argc, char **argv, const char *master_host);

#endif
