# The C functions and macros of datetime, for modules that import it when they first need it. They come from
# `_datetime`: it loads in a fourth of the time of `datetime`, which in Python 3.11 has everything in Python too.
from cpython.object cimport PyObject

cdef extern from *:
    """
    #include <datetime.h>

    static inline int arrowipc_import_datetime(void) {
        if (PyDateTimeAPI == NULL) {
            PyObject *module = PyImport_ImportModule("_datetime");
            PyObject *capsule = module == NULL ? NULL : PyObject_GetAttrString(module, "datetime_CAPI");
            if (capsule != NULL)
                PyDateTimeAPI = (PyDateTime_CAPI *) PyCapsule_GetPointer(capsule, PyDateTime_CAPSULE_NAME);
            Py_XDECREF(capsule);
            Py_XDECREF(module);
        }
        return PyDateTimeAPI == NULL ? -1 : 0;
    }
    """
    # Each module calls this before it uses anything below.
    int import_datetime "arrowipc_import_datetime"() except -1
    PyObject* UTC "PyDateTime_TimeZone_UTC"
    object new_timedelta "PyDelta_FromDSU"(int days, int seconds, int microseconds)
    object new_time "PyTime_FromTime"(int hour, int minute, int second, int microsecond)
    bint is_datetime "PyDateTime_Check"(object value) noexcept
    bint is_plain_datetime "PyDateTime_CheckExact"(object value) noexcept
    bint is_date "PyDate_Check"(object value) noexcept
    bint is_plain_date "PyDate_CheckExact"(object value) noexcept
    bint is_time "PyTime_Check"(object value) noexcept
    bint is_delta "PyDelta_Check"(object value) noexcept
    bint is_plain_delta "PyDelta_CheckExact"(object value) noexcept
    int year_of "PyDateTime_GET_YEAR"(object value) noexcept
    int month_of "PyDateTime_GET_MONTH"(object value) noexcept
    int day_of "PyDateTime_GET_DAY"(object value) noexcept
    int hour_of "PyDateTime_DATE_GET_HOUR"(object value) noexcept
    int minute_of "PyDateTime_DATE_GET_MINUTE"(object value) noexcept
    int second_of "PyDateTime_DATE_GET_SECOND"(object value) noexcept
    int microsecond_of "PyDateTime_DATE_GET_MICROSECOND"(object value) noexcept
    PyObject* zone_of "PyDateTime_DATE_GET_TZINFO"(object value) noexcept
    int time_hour "PyDateTime_TIME_GET_HOUR"(object value) noexcept
    int time_minute "PyDateTime_TIME_GET_MINUTE"(object value) noexcept
    int time_second "PyDateTime_TIME_GET_SECOND"(object value) noexcept
    int time_microsecond "PyDateTime_TIME_GET_MICROSECOND"(object value) noexcept
    PyObject* time_zone_of "PyDateTime_TIME_GET_TZINFO"(object value) noexcept
    int delta_days "PyDateTime_DELTA_GET_DAYS"(object value) noexcept
    int delta_seconds "PyDateTime_DELTA_GET_SECONDS"(object value) noexcept
    int delta_microseconds "PyDateTime_DELTA_GET_MICROSECONDS"(object value) noexcept

cdef enum:
    SECONDS_PER_DAY = 86400
