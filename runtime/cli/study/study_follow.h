/* study_follow.h - a process of `yoke study` other than process 0. It measures nothing itself: it follows the engines
 * of process 0 that have ranks here. */
#ifndef YK_CLI_STUDY_FOLLOW_H
#define YK_CLI_STUDY_FOLLOW_H

#include "yoke/yoke.h"

/* yk_study_follow - for yk_cli_follow_by, with the yk_study_settings as user. */
yk_status yk_study_follow(void *settings, const yk_engine_options *engine, const char *(*stops)(void *user),
                          void *stops_user, bool *is_stuck, yk_err *err);

#endif
