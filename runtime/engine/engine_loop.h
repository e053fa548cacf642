/* engine_loop.h - the engine thread. */
#ifndef YK_ENGINE_ENGINE_LOOP_H
#define YK_ENGINE_ENGINE_LOOP_H

/* yk_engine_loop - main function of the engine thread; `engine` is a yk_engine. */
void *yk_engine_loop(void *engine);

#endif
