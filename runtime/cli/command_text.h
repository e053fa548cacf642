/* command_text.h - a command line as text, for the user to resume stopped work. */
#ifndef YK_CLI_COMMAND_TEXT_H
#define YK_CLI_COMMAND_TEXT_H

/* yk_command_text - name ("yoke study") and arguments, quoted for a shell; the caller frees it. NULL: no memory. */
char *yk_command_text(const char *name, int argc, char *const *argv);

#endif
