#define Py_BUILD_CORE 1
#include "python_frames.h"

#include <frameobject.h>

#if PY_VERSION_HEX < 0x030A0000
#error "Python 3.10 is the oldest version supported"
#elif PY_VERSION_HEX < 0x030B0000
#define FRAMES_OF_310 1
#elif PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
#define FRAMES_OF_311 1
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_code.h>
#endif
#endif

static void (*report_gone)(PyCodeObject *code) = NULL;

#if PY_VERSION_HEX >= 0x030C0000

static int on_code_event(PyCodeEvent event, PyCodeObject *code) {
    if (event == PY_CODE_EVENT_DESTROY) {
        report_gone(code);
    }
    return 0;
}

int watch_code_objects(void (*gone)(PyCodeObject *code)) {
    static int is_watching = 0; /* imported again, after its module was forgotten */
    report_gone = gone;
    if (is_watching) {
        return 1;
    }
    if (PyCode_AddWatcher(on_code_event) < 0) {
        PyErr_Clear(); /* all eight places are taken */
        return 0;
    }
    is_watching = 1;
    return 1;
}

#else

/* Before 3.12 nobody is told, so the destructor of the type is put in front of the real one. */
static destructor real_dealloc = NULL;

static void dealloc_code(PyObject *code) {
    report_gone((PyCodeObject *)code);
    real_dealloc(code);
}

int watch_code_objects(void (*gone)(PyCodeObject *code)) {
    report_gone = gone;
    if (PyCode_Type.tp_dealloc != dealloc_code) { /* imported again, after its module was forgotten */
        real_dealloc = PyCode_Type.tp_dealloc;
        PyCode_Type.tp_dealloc = dealloc_code;
    }
    return 1;
}

#endif

#if defined(FRAMES_OF_310)

PythonFrameCursor innermost_python_frame(void) {
    PyThreadState *thread = PyGILState_GetThisThreadState();
    return thread == NULL ? NULL : thread->frame;
}

size_t read_python_frames(PythonFrameCursor *cursor, struct RawPythonFrame *frames, size_t capacity) {
    size_t count = 0;
    const PyFrameObject *frame = *cursor;
    for (; frame != NULL && count < capacity; frame = frame->f_back) {
        frames[count].code = frame->f_code;
        /* f_lasti counts instructions of two bytes; -1 before the first. */
        frames[count].instruction_offset = frame->f_lasti < 0 ? 0 : (uint32_t)frame->f_lasti * 2;
        ++count;
    }
    *cursor = frame;
    return count;
}

PyCodeObject *code_of_frame(PyFrameObject *frame) { return frame->f_code; }

PyObject *first_local_of_frame(PyFrameObject *frame) {
    return frame->f_code->co_nlocals > 0 ? frame->f_localsplus[0] : NULL;
}

void visit_frame_locals(PyFrameObject *frame, void (*visit)(void *context, PyObject *name, PyObject *value),
                        void *context) {
    PyCodeObject *code = frame->f_code;
    PyObject *names[] = {code->co_varnames, code->co_cellvars, code->co_freevars};
    Py_ssize_t place = 0;
    for (size_t kind = 0; kind < 3; ++kind) {
        for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(names[kind]); ++index, ++place) {
            if (frame->f_localsplus[place] != NULL) {
                visit(context, PyTuple_GET_ITEM(names[kind], index), frame->f_localsplus[place]);
            }
        }
    }
}

#elif defined(FRAMES_OF_311)

#if PY_VERSION_HEX >= 0x030D0000
static const _PyInterpreterFrame *current_frame(const PyThreadState *thread) { return thread->current_frame; }
#else
static const _PyInterpreterFrame *current_frame(const PyThreadState *thread) { return thread->cframe->current_frame; }
#endif

static PyCodeObject *code_of(const _PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

/* Frames that C code entered the interpreter through (3.12 and later) have no code of their own. */
static int belongs_to_interpreter(const _PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030C0000
    return frame->owner == FRAME_OWNED_BY_CSTACK;
#else
    (void)frame;
    return 0;
#endif
}

static long instruction_index(const _PyInterpreterFrame *frame, PyCodeObject *code) {
#if PY_VERSION_HEX >= 0x030D0000
    return (long)(frame->instr_ptr - _PyCode_CODE(code));
#else
    return (long)(frame->prev_instr - _PyCode_CODE(code));
#endif
}

/* A frame that has not executed its first real instruction is not there yet for anybody. Only the
   innermost one can be in that state: it cannot have called anything. */
static int is_incomplete(const _PyInterpreterFrame *frame) {
    PyCodeObject *code = code_of(frame);
    return frame->owner != FRAME_OWNED_BY_GENERATOR && instruction_index(frame, code) < code->_co_firsttraceable;
}

PythonFrameCursor innermost_python_frame(void) {
    const PyThreadState *thread = PyGILState_GetThisThreadState();
    const _PyInterpreterFrame *frame = thread == NULL ? NULL : current_frame(thread);
    while (frame != NULL && (belongs_to_interpreter(frame) || is_incomplete(frame))) {
        frame = frame->previous;
    }
    return frame;
}

size_t read_python_frames(PythonFrameCursor *cursor, struct RawPythonFrame *frames, size_t capacity) {
    size_t count = 0;
    const _PyInterpreterFrame *frame = *cursor;
    for (; frame != NULL && count < capacity; frame = frame->previous) {
        if (belongs_to_interpreter(frame)) {
            continue;
        }
        PyCodeObject *code = code_of(frame);
        long index = instruction_index(frame, code);
        frames[count].code = code;
        frames[count].instruction_offset = index < 0 ? 0 : (uint32_t)index * (uint32_t)sizeof(_Py_CODEUNIT);
        ++count;
    }
    *cursor = frame;
    return count;
}

PyCodeObject *code_of_frame(PyFrameObject *frame) { return code_of(frame->f_frame); }

PyObject *first_local_of_frame(PyFrameObject *frame) {
    return code_of(frame->f_frame)->co_nlocals > 0 ? frame->f_frame->localsplus[0] : NULL;
}

void visit_frame_locals(PyFrameObject *frame, void (*visit)(void *context, PyObject *name, PyObject *value),
                        void *context) {
    const _PyInterpreterFrame *inner = frame->f_frame;
    PyCodeObject *code = code_of(inner);
    if (is_incomplete(inner)) {
        return;
    }
    for (int place = 0; place < code->co_nlocalsplus; ++place) {
        if (inner->localsplus[place] != NULL) {
            visit(context, PyTuple_GET_ITEM(code->co_localsplusnames, place), inner->localsplus[place]);
        }
    }
}

#else /* layouts not known: no stacks, and the doctor says so */

PythonFrameCursor innermost_python_frame(void) { return NULL; }

size_t read_python_frames(PythonFrameCursor *cursor, struct RawPythonFrame *frames, size_t capacity) {
    (void)cursor;
    (void)frames;
    (void)capacity;
    return 0;
}

PyCodeObject *code_of_frame(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    Py_DECREF(code); /* the frame keeps it */
    return code;
}

PyObject *first_local_of_frame(PyFrameObject *frame) {
    (void)frame;
    return NULL;
}

void visit_frame_locals(PyFrameObject *frame, void (*visit)(void *context, PyObject *name, PyObject *value),
                        void *context) {
    (void)frame;
    (void)visit;
    (void)context;
}

#endif

PyObject *line_table_of_code(PyCodeObject *code) { return code->co_linetable; }

int python_frames_supported(void) {
#if defined(FRAMES_OF_310) || defined(FRAMES_OF_311)
    return 1;
#else
    return 0;
#endif
}
