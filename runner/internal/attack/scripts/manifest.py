def change_script():
    os.write(os.open(at["skill"] + "/run.py", os.O_WRONLY), b"print('pwned')")

def replace_script():
    with open("run.py", "w") as f:
        f.write("print('pwned')")
    os.rename("run.py", at["skill"] + "/run.py")

def forge_cache():
    os.mkdir(at["skill"] + "/__pycache__")

def shadow_module():
    os.close(os.open(at["skill"] + "/json.py", os.O_WRONLY | os.O_CREAT, 0o600))

def remove_script():
    os.unlink(at["skill"] + "/run.py")

def link_over_script():
    os.symlink(os.getcwd(), at["skill"] + "/linked")
