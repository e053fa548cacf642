/* command_text.h - the command line that goes on with what was stopped. */
#ifndef YK_CLI_COMMAND_TEXT_H
#define YK_CLI_COMMAND_TEXT_H

/* yk_command_text - name ("yoke study") and arguments as a shell takes them; the caller frees it. NULL: no memory. */
char *yk_command_text(const char *name, int argc, char *const *argv);

#endif
