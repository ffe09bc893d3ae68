/* The frames of a Python thread, read without the GIL.

   A thread's own frames cannot change while it is inside C, and each frame keeps its code
   object alive. So the thread itself may read the chain at any time. Nothing is referenced,
   allocated or called. The layouts differ per Python version; python_frames.c is the only
   file that knows them. */
#pragma once

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct RawPythonFrame {
    PyCodeObject* code;          /* borrowed: valid while the frame runs */
    uint32_t instruction_offset; /* bytes from the start of the bytecode */
};

/* Where reading goes on; NULL when there are no more frames. */
typedef const void* PythonFrameCursor;

/* Innermost frame of the calling thread; NULL if it runs no Python. */
PythonFrameCursor innermost_python_frame(void);

/* Reads up to `capacity` frames, moves the cursor outwards, returns how many were read. Frames that
   the interpreter made for itself are skipped. */
size_t read_python_frames(PythonFrameCursor* cursor, struct RawPythonFrame* frames, size_t capacity);

/* Code of the frame that a profile function was called for (borrowed). */
PyCodeObject* code_of_frame(PyFrameObject* frame);

/* Value of the frame's first local variable (borrowed), or NULL. */
PyObject* first_local_of_frame(PyFrameObject* frame);

/* Calls visit(context, name, value) for each local variable of a frame that has a value; of cells, the cell. With the
   GIL held. Nothing is left in the frame, unlike with f_locals of Pythons before 3.13. */
void visit_frame_locals(PyFrameObject* frame, void (*visit)(void* context, PyObject* name, PyObject* value),
                        void* context);

/* Bytes object with the code's line table (borrowed). */
PyObject* line_table_of_code(PyCodeObject* code);

/* Has `gone` called whenever a code object is destroyed, with the GIL held: its address may be given to
   another one right after. Callable once. 0 if the interpreter does not let us know. */
int watch_code_objects(void (*gone)(PyCodeObject* code));

/* Whether this version's layouts are known. */
int python_frames_supported(void);

#ifdef __cplusplus
}
#endif
