/* study_tools.h - commands for finished studies. argv[0] is the first argument after the command's name. */
#ifndef YK_CLI_STUDY_TOOLS_H
#define YK_CLI_STUDY_TOOLS_H

int yk_cli_study_compare(int argc, char **argv);
int yk_cli_study_predict(int argc, char **argv);
int yk_cli_study_report(int argc, char **argv);

#endif
