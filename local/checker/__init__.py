"""What must hold whatever happens, judged from the stand-ins' ground truth alone.

It shares no code with what it judges: nothing of the core, the functions or the exporter is imported here.
"""
