"""The notification at the end of a run: to loopback bots and a mail server, worded and signed as by SwanLab's plugin."""
import base64
import email
import email.policy
import hashlib
import hmac
import json
import signal
import socket
import ssl
import subprocess
import time
import urllib.parse
from contextlib import ExitStack

import pytest
import yaml
from local_server import Handler, serving
from train_testing import ENVIRONMENT, Run, command, hone_binary


class Bot:
    """A chat service's webhook: keeps what it is told, answers as told."""

    def __init__(self, status=200, answer=b'{"code": 0}'):
        bot = self
        self.told = []

        class Webhook(Handler):
            def do_POST(self):
                bot.told.append((urllib.parse.urlparse(self.path), self.headers["Content-Type"], self.question()))
                self.reply(status, answer)

        self.handler = Webhook

    def only_message(self):
        assert len(self.told) == 1, self.told
        return self.told[0]


@pytest.fixture
def bot():
    with ExitStack() as stack:
        def start(*args, **kwargs):
            bot = Bot(*args, **kwargs)
            bot.url = stack.enter_context(serving(bot.handler)) + "/hook/s3cr3t-path"
            return bot

        yield start


def asked(method, **more):
    return dict(max_steps=1, report_to="swanlab", swanlab_project="colours", swanlab_workspace="us", swanlab_exp_name="try",
                swanlab_notification_method=method, **more)


def signature(key, text):
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()).decode()


def keeps_secrets(run, *secrets):
    seen = run.out + run.err + (run.folder / "args.json").read_text()
    assert not any(secret in seen for secret in ("s3cr3t-path", *secrets))


def test_lark_gets_a_signed_notification(sft, tmp_path, bot):
    lark = bot()
    run = sft(tmp_path / "run", **asked("lark", swanlab_webhook_url=lark.url, swanlab_secret="shhh"))
    assert run.code == 0, run.err
    path, kind, body = lark.only_message()
    assert path.path == "/hook/s3cr3t-path" and kind == "application/json" and body["msg_type"] == "text"
    assert abs(body["timestamp"] - time.time()) < 3600 and body["sign"] == signature(f"{body['timestamp']}\nshhh", "")
    lines = body["content"]["text"].splitlines()
    assert lines[:2] == ["SwanLab 消息通知", "SwanLab | 您的实验已成功完成"]
    assert lines[2:] == ["项目: colours", "工作区: us", "实验名: try", f"描述: sft of {run_model(run)}", f"实验链接: {run.folder.resolve()}"]
    keeps_secrets(run, "shhh")


def run_model(run):
    return json.loads((run.folder / "args.json").read_text())["model"]


def test_dingtalk_gets_a_signature_in_the_url(sft, tmp_path, bot):
    dingtalk = bot(answer=b'{"errcode": 0, "errmsg": "ok"}')
    run = sft(tmp_path / "run", **asked("dingtalk", swanlab_webhook_url=dingtalk.url + "?access_token=t0k3n", swanlab_secret="SECshhh"))
    assert run.code == 0, run.err
    path, _, body = dingtalk.only_message()
    query = dict(urllib.parse.parse_qsl(path.query))
    assert query == {"access_token": "t0k3n", "timestamp": query["timestamp"], "sign": signature("SECshhh", f"{query['timestamp']}\nSECshhh")}
    assert body["msgtype"] == "text" and "已成功完成" in body["text"]["content"]
    keeps_secrets(run, "SECshhh", "t0k3n")


@pytest.mark.parametrize("method, words", [("wxwork", lambda body: body["text"]["content"]), ("discord", lambda body: body["content"]), ("slack", lambda body: body["text"])])
def test_bots_without_signatures_are_notified(sft, tmp_path, bot, method, words):
    service = bot(204 if method == "discord" else 200, b"" if method == "discord" else b"ok" if method == "slack" else b'{"errcode": 0}')
    run = sft(tmp_path / "run", fault="train.loss:nan:1", non_finite="stop", **asked(method, swanlab_webhook_url=service.url))
    assert run.code == 6, run.err
    assert "遇到错误: " in words(service.only_message()[2]) and "项目: colours" in words(service.only_message()[2])
    keeps_secrets(run)


@pytest.mark.parametrize("status, answer, message", [(200, b'{"code": 19021, "msg": "sign match fail"}', "sign match fail"), (200, b"x" * 100_000, "not understood")])
def test_a_service_that_refuses_costs_one_warning(sft, tmp_path, bot, status, answer, message):
    lark = bot(status, answer)
    run = sft(tmp_path / "run", **asked("lark", swanlab_webhook_url=lark.url))
    assert run.code == 0 and run.err.count("could not be sent") == 1 and message in run.err
    keeps_secrets(run)


def test_a_service_that_cannot_be_reached_costs_one_warning(sft, tmp_path):
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        run = sft(tmp_path / "run", **asked("slack", swanlab_webhook_url=f"http://127.0.0.1:{taken.getsockname()[1]}/s3cr3t-path"))
    assert run.code == 0 and run.err.count("could not be sent") == 1
    keeps_secrets(run)


def test_an_interrupted_run_is_notified(model_folder, dataset, tmp_path, bot):
    lark = bot()
    words = command(model_folder, dataset, tmp_path / "run", **{**asked("lark", swanlab_webhook_url=lark.url), "max_steps": 100000})
    process = subprocess.Popen([hone_binary(), "sft", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    for line in process.stdout:
        if '"loss"' in line or "'loss'" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert "遇到错误: interrupted by Ctrl-C" in lark.only_message()[2]["content"]["text"]


def test_several_processes_send_one_notification(sft, tmp_path, bot):
    lark = bot()
    run = sft(tmp_path / "run", count=2, **asked("lark", swanlab_webhook_url=lark.url))
    assert run.code == 0 and "已成功完成" in lark.only_message()[2]["content"]["text"], run.err
    failed = bot()
    run = sft(tmp_path / "failed", count=2, fault="checkpoint.before_rename:kill", **asked("lark", swanlab_webhook_url=failed.url))
    assert run.code != 0 and "was killed by signal 9" in failed.only_message()[2]["content"]["text"]


def test_llamafactory_notifies_lark(model_folder, dataset, tmp_path, bot):
    lark = bot()
    data = tmp_path / "data"
    data.mkdir()
    (data / "dataset_info.json").write_text(json.dumps({"colours": {"file_name": str(dataset), "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": {
        "role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}}}))
    settings = dict(stage="sft", model_name_or_path=str(model_folder), dataset="colours", dataset_dir=str(data), template="qwen", do_train=True, finetuning_type="lora",
                    output_dir=str(tmp_path / "out"), max_steps=1, use_swanlab=True, swanlab_lark_webhook_url=lark.url, swanlab_lark_secret="shhh")
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    program = hone_binary().with_name("llamafactory-cli")
    done = subprocess.run([program, "train", tmp_path / "run.yaml"], capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert done.returncode == 0, done.stderr
    body = lark.only_message()[2]
    assert body["sign"] == signature(f"{body['timestamp']}\nshhh", "") and str(tmp_path / "out") in body["content"]["text"]
    shown = subprocess.run([program, "train", tmp_path / "run.yaml", "--show_config", "true"], capture_output=True, text=True, env=ENVIRONMENT)
    assert shown.returncode == 0 and "(hidden)" in shown.stdout and "shhh" not in shown.stdout and "s3cr3t-path" not in shown.stdout


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return folder


class PostOffice:
    """A mail server that takes mails in for those who know the password, if it has one, over TLS alone."""

    def __init__(self, certificate=None, password=None):
        from aiosmtpd.controller import Controller
        from aiosmtpd.smtp import AuthResult

        self.mails = []

        class Handler:
            async def handle_DATA(handler, server, session, envelope):
                self.mails.append((envelope, session.ssl is not None))
                return "250 taken"

        settings = {}
        if certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
            settings = dict(tls_context=context, require_starttls=True)
        if password:
            def check(server, session, envelope, mechanism, auth):
                return AuthResult(success=(auth.login, auth.password) == (b"from@example.org", password.encode()))

            settings.update(authenticator=check, auth_required=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.controller = Controller(Handler(), hostname="127.0.0.1", port=self.port, **settings)
        self.controller.start()


@pytest.fixture
def post_office():
    offices = []

    def open_one(*args):
        offices.append(PostOffice(*args))
        return offices[-1]

    yield open_one
    for office in offices:
        office.controller.stop()


def by_mail(office, **more):
    return asked("email", swanlab_sender_email="from@example.org", swanlab_receiver_email="one@example.org, two@example.org",
                 swanlab_smtp_server="localhost", swanlab_smtp_port=office.port, **more)


def test_a_mail_goes_out_encrypted_with_the_password(sft, tmp_path, post_office, certificate):
    office = post_office(certificate, "passw0rd")
    trust = {name: str(certificate / "cert.pem") for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")}
    run = sft(tmp_path / "run", env=trust, **by_mail(office, swanlab_secret="passw0rd", swanlab_email_language="en"))
    assert run.code == 0 and len(office.mails) == 1, run.err
    envelope, encrypted = office.mails[0]
    assert encrypted and envelope.mail_from == "from@example.org" and envelope.rcpt_tos == ["one@example.org", "two@example.org"]
    mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
    assert mail["Subject"] == "SwanLab | Experiment Completed Successfully" and mail["From"].addresses[0].addr_spec == "from@example.org"
    assert mail["Date"].datetime.timestamp() == pytest.approx(time.time(), abs=3600) and not mail.defects
    text, page = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    assert "Project: colours\n" in text and f"Experiment Link: {run.folder.resolve()}" in text and "<td>colours</td>" in page
    keeps_secrets(run, "passw0rd")
    wrong = sft(tmp_path / "wrong", env=trust, **by_mail(office, swanlab_secret="0ther"))
    assert wrong.code == 0 and wrong.err.count("could not be sent") == 1 and len(office.mails) == 1
    keeps_secrets(wrong, "0ther")


def test_no_password_goes_out_in_the_clear(sft, tmp_path, post_office):
    office = post_office()
    run = sft(tmp_path / "run", **by_mail(office, swanlab_secret="passw0rd"))
    assert run.code == 0 and run.err.count("could not be sent") == 1 and not office.mails
    open_run = sft(tmp_path / "open", fault="train.loss:nan:1", non_finite="stop", **by_mail(office))
    mail = email.message_from_bytes(office.mails[0][0].content, policy=email.policy.default)
    assert open_run.code == 6 and mail["Subject"] == "SwanLab | 实验遇到错误" and "<b>错误详情</b>" in mail.get_body(("html",)).get_content()


@pytest.mark.parametrize("options, named", [
    (dict(swanlab_notification_method="pigeon"), "swanlab_notification_method"),
    (asked("lark"), "swanlab_webhook_url"),
    (asked("lark", swanlab_webhook_url="word"), "swanlab_webhook_url"),
    (asked("email", swanlab_sender_email="a@b", swanlab_receiver_email="c@d", swanlab_smtp_port=25), "swanlab_smtp_server"),
    (asked("email", swanlab_sender_email="nobody", swanlab_receiver_email="c@d", swanlab_smtp_server="s", swanlab_smtp_port=25), "swanlab_sender_email"),
    (asked("email", swanlab_sender_email="a@b", swanlab_receiver_email="c@d", swanlab_smtp_server="s"), "swanlab_smtp_port"),
])
def test_what_cannot_work_is_reported_at_once(sft, tmp_path, options, named):
    run = sft(tmp_path / "run", **options)
    assert run.code == 2 and named in run.err and not run.folder.exists()


def test_runs_without_swanlab_send_no_notification(sft, tmp_path, bot):
    lark = bot()
    run = sft(tmp_path / "run", **{**asked("lark", swanlab_webhook_url=lark.url), "report_to": "tensorboard"})
    assert run.code == 0 and not lark.told and "swanlab_notification_method had no effect" in run.err
